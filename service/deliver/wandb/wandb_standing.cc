// The part of WandbDelivery that determines the run's standing at the server, because another store
// may have written to it since our last post. stores.md beside this describes the consequences.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/wandb/api/run_read_back.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/history/branch_point.h"
#include "service/deliver/wandb/history/history_diff.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr size_t kMaxSummaryAnswer = 64 << 20;  // an escaped summary or line at its limit
constexpr int64_t kLinesOfAStep = 100;          // limit for the lines of one step, from all stores
// Servers may round times.
constexpr int64_t kSameTimeUs = 1000;

// What the summary keeps of the values of other programs. A larger one would be stored with each
// post.
nlohmann::json KeptSummary(const nlohmann::json& summary) {
  constexpr size_t kMaxKept = 64 << 10;
  if (!summary.is_object() || summary.dump().size() > kMaxKept) return nullptr;
  nlohmann::json kept = summary;
  for (const char* const key : {"_step", "_timestamp", "_runtime", "_wandb"}) kept.erase(key);
  return kept;
}

// The bare line for a refused row.
std::string BareLine(const nlohmann::json& line) {
  nlohmann::json bare = nlohmann::json::object();
  for (const char* const key : {"_timestamp", "_runtime", "_step"}) {
    if (line.contains(key)) bare[key] = line[key];
  }
  return bare.dump();
}

bool IsThere(uint64_t row, int64_t step, const std::string& line,
             const std::vector<std::string>& lines) {
  HistoryDiff diff;
  AddPage({{.row = row, .step = step, .line = line}}, lines, /*shared=*/true, &diff);
  return diff.matching > 0;
}

}  // namespace

bool WandbDelivery::MustAsk(absl::Time now) const {
  const bool at_ends = !has_sent() || ended();
  return now >= known_at_ + (at_ends ? options_.ask_after_at_ends : options_.ask_after);
}

absl::Duration WandbDelivery::StandingUnknown(absl::Duration wait) {
  unsettled_ = delivery_.last_error;
  return wait;
}

absl::Duration WandbDelivery::AskStanding(absl::Time now) {
  const bool created = cursor_.created();
  const absl::StatusOr<HttpResponse> answer =
      Post(Endpoint::kGraphql,
           StandingBody(created ? cursor_.entity : run_.settings.entity,
                        created ? cursor_.project : run_.project,
                        created ? cursor_.run_id : run_.run_id),
           kMaxSummaryAnswer);
  const Outcome outcome = Classify(answer);
  absl::StatusOr<ServerRunState> standing = outcome == Outcome::kAccepted
                                                ? ParseStanding(answer->body)
                                                : absl::UnavailableError("no answer");
  if (absl::IsNotFound(standing.status())) {
    if (!created && run_.must_be_there) {
      return StandingUnknown(Blocked(
          absl::StrCat("resume=must, and the tracker has no run '", run_.run_id, "'", kToContinue,
                       "create that run, or start the job with RANKLOG_RESUME=allow"),
          now));
    }
    standing = ServerRunState();
  }
  if (standing.ok() && !created && standing->lines + standing->events > 0 &&
      run_.settings.resume == "never") {
    return StandingUnknown(
        Blocked(absl::StrCat("resume=never, and the tracker has a run '", run_.run_id, "'",
                             kToContinue, "remove that run, or start the job with another id"),
                now));
  }
  if (!standing.ok()) {
    return outcome == Outcome::kAccepted
               ? StandingUnknown(BlockedByAnswer(standing.status(), answer, now))
               : StandingUnknown(Failed(OfQuestion(outcome), "query the run's state", answer, now));
  }
  standing_ = *std::move(standing);
  server_state_.clear();
  found_ = 0;
  not_found_ = UINT64_MAX;
  return absl::ZeroDuration();
}

// The number of lines does not show which lines after the delivered rows are ours. So this looks
// for the rows that may be there by their steps, starting with the first.
absl::StatusOr<absl::Duration> WandbDelivery::ApplyStanding(storage::StoreReader& reader,
                                                            absl::Time now) {
  const uint64_t first = delivery_.delivered_rows;
  const bool more = standing_->lines > cursor_.base_offset + static_cast<int64_t>(first);
  ASSIGN_OR_RETURN(const bool takes_up, ContinuesRun(reader));
  if (takes_up) {
    cursor_.runtime_before_us = standing_->runtime_us;
    cursor_.summary_before = FromServer(KeptSummary(standing_->summary));
    history_.SetClock(Clock());
    BeginAfter(standing_->last_step);
  } else if (const absl::optional<BranchPoint> fork = Fork();
             fork && !cursor_.created() && standing_->lines == 0) {
    BeginAfter(fork->step);
  } else if (more && run_.rows > first) {
    if (history_.next() < first) return Scan(reader);
    // Includes rows that were not cut yet: this store may be an older copy of the store that sent
    // them, also from before the run was created.
    if (cursor_.cut_rows == 0) {
      RETURN_IF_ERROR(DefineMetrics(reader, cursor_.cut_updates));
      RETURN_IF_ERROR(Cut(reader).status());
      if (delivery_.delivered_rows > first) return absl::ZeroDuration();  // replays were skipped
    }
    not_found_ = std::min(not_found_, cursor_.cut_rows);
    if (found_ < not_found_) return LookForRow(reader, now);
  }
  const bool others = standing_->lines > cursor_.base_offset + static_cast<int64_t>(first + found_);
  if (others || cursor_.continued) RETURN_IF_ERROR(MoveAfterOthers(reader, found_));
  if (standing_->events > EndOfEvents()) {  // of others
    cursor_.events_offset = standing_->events - static_cast<int64_t>(cursor_.samples);
  }
  PlaceConsole(standing_->console);
  reopened_ &= !others;
  if (cursor_.continued && server_state_.empty()) return AskState(now);
  const bool active = server_state_ == "running" || server_state_ == "preempting";
  other_store_active_ = cursor_.continued && active && !reopened_;
  const bool waits = other_store_active_ && run_.rows > first;
  if (!waits && delivery_.last_error == unsettled_) delivery_.last_error.clear();
  server_exit_code_.reset();
  if (server_state_ == "finished") server_exit_code_ = 0;
  if (server_state_ == "failed" || server_state_ == "preempted") server_exit_code_ = 1;
  server_run_ = *std::move(standing_);
  config_read_at_ = now;
  standing_.reset();
  asked_ = true;
  // The first row of this store may make the run ours.
  const bool without_rows = cursor_.continued && run_.rows == first;
  known_at_ = without_rows ? absl::InfinitePast() : now;
  return absl::ZeroDuration();
}

// The state of a run that another store continues.
absl::Duration WandbDelivery::AskState(absl::Time now) {
  const absl::StatusOr<HttpResponse> answer =
      Post(Endpoint::kGraphql, StateBody(cursor_.entity, cursor_.project, cursor_.run_id));
  const Outcome outcome = Classify(answer);
  absl::StatusOr<std::string> state = outcome == Outcome::kAccepted
                                          ? ParseState(answer->body)
                                          : absl::UnavailableError("no answer");
  if (state.ok()) {
    server_state_ = *std::move(state);
    return absl::ZeroDuration();
  }
  standing_.reset();  // will be out of date at the next try
  asked_ = false;
  return outcome == Outcome::kAccepted
             ? StandingUnknown(BlockedByAnswer(state.status(), answer, now))
             : StandingUnknown(Failed(OfQuestion(outcome), "query the run's state", answer, now));
}

// Looks for the next row of the cut. Order: the first, the last, then by bisection, because posts
// begin with the first row.
absl::StatusOr<absl::Duration> WandbDelivery::LookForRow(storage::StoreReader& reader,
                                                         absl::Time now) {
  RETURN_IF_ERROR(WriteCut(reader));
  uint64_t at = (found_ + not_found_) / 2;
  if (not_found_ == cursor_.cut_rows) at = found_ == 0 ? 0 : not_found_ - 1;
  const uint64_t row = delivery_.delivered_rows + at;
  const std::string line = Unquoted(lines_.Of(row, 1));
  const nlohmann::json members = ParseServerJson(line);
  if (!members.is_object()) {
    return absl::InternalError(absl::StrCat("the line of row ", row, " is not a JSON object"));
  }
  const int64_t step = lines_.steps[row - lines_.first];
  const bool created = cursor_.created();
  const absl::StatusOr<HttpResponse> answer =
      Post(Endpoint::kGraphql,
           HistoryBody({.entity = created ? cursor_.entity : run_.settings.entity,
                        .project = created ? cursor_.project : run_.project,
                        .run_id = created ? cursor_.run_id : run_.run_id,
                        .min_step = step,
                        .max_step = step + 1,
                        .max_lines = kLinesOfAStep}),
           kMaxSummaryAnswer);
  const Outcome outcome = Classify(answer);
  const absl::StatusOr<HistoryPage> page = outcome == Outcome::kAccepted
                                               ? ParseHistory(answer->body)
                                               : absl::UnavailableError("no answer");
  if (!page.ok()) {
    standing_.reset();  // will be out of date at the next try
    asked_ = false;
    return outcome == Outcome::kAccepted
               ? StandingUnknown(BlockedByAnswer(page.status(), answer, now))
               : StandingUnknown(Failed(OfQuestion(outcome), "look for rows that the tracker has",
                                        answer, now));
  }
  if (IsThere(row, step, line, page->lines) || IsThere(row, step, BareLine(members), page->lines)) {
    found_ = at + 1;
  } else {
    not_found_ = at;
  }
  return absl::ZeroDuration();
}

// Other stores have written lines after ours. The first `found` rows of the cut are at the server.
// They are sent again to the same lines, because no answer for them was stored. All other rows go
// after the last line.
absl::Status WandbDelivery::MoveAfterOthers(storage::StoreReader& reader, uint64_t found) {
  const uint64_t first = delivery_.delivered_rows;
  ASSIGN_OR_RETURN(const bool newest, IsNewest(reader));
  if (newest && cursor_.continued) {  // the other store may have changed these
    config_.Forget();
    cursor_.sent_config.clear();
    sent_summary_.clear();
    summary_changed_ = true;
    next_config_ = absl::InfinitePast();
  }
  cursor_.continued = !newest;
  cursor_.continued_us =
      newest ? 0 : std::max(cursor_.continued_us, standing_->newest_us.value_or(0));
  if (cursor_.continued && !cursor_.created()) {  // an upsert would start the run anew
    cursor_.storage_id = standing_->storage_id;
    cursor_.run_id = standing_->run_id;
    cursor_.display_name = standing_->display_name;
    cursor_.entity = standing_->entity.empty() ? run_.settings.entity : standing_->entity;
    cursor_.project = standing_->project.empty() ? run_.project : standing_->project;
  }
  if (!cursor_.created() || standing_->lines <= cursor_.base_offset + static_cast<int64_t>(first)) {
    return absl::OkStatus();
  }
  ask_after_cut_ = found > 0;
  if (found > 0) {
    cursor_.cut_rows = found;
    if (lines_.end() != first + found) lines_ = {};
  } else {
    DropCut();
    cursor_.base_offset = standing_->lines - static_cast<int64_t>(first);
  }
  return absl::OkStatus();
}

// The time at which a row of the run was logged.
absl::StatusOr<int64_t> WandbDelivery::TimeOfRow(storage::StoreReader& reader, uint64_t row) const {
  ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                   reader.RunBatches(run_.id, row, /*max_bytes=*/1));
  int64_t time_us = 0;
  for (const storage::StoredBatch& stored : batches) {
    model::ForEachRow(stored.batch, [&](const model::Block& block, size_t at, uint64_t index) {
      if (index == row) time_us = block.times_us[at];
    });
  }
  return time_us;
}

// Whether the newest row of the run was logged here. Then the run continues here.
absl::StatusOr<bool> WandbDelivery::IsNewest(storage::StoreReader& reader) const {
  if (!standing_->newest_us.has_value()) return !cursor_.created();
  if (run_.rows == 0) return false;
  ASSIGN_OR_RETURN(const int64_t last_us, TimeOfRow(reader, run_.rows - 1));
  return last_us + kSameTimeUs >= std::max(*standing_->newest_us, cursor_.continued_us);
}

// Whether this store continues the run of other stores. True if this store has sent no row, its
// starts continue an existing run, and its first row is newer than the server's rows. An imported
// run may have been sent from its log by another program, so its rows may be those of the server.
absl::StatusOr<bool> WandbDelivery::ContinuesRun(storage::StoreReader& reader) const {
  if (has_sent() || cursor_.cut_rows > 0 || run_.rows == 0) return false;
  if (!standing_->newest_us.has_value()) return false;
  if (run_.settings.imported) return true;
  ASSIGN_OR_RETURN(const int64_t first_us, TimeOfRow(reader, 0));
  if (first_us <= *standing_->newest_us + kSameTimeUs) return false;
  const std::string& resume = run_.settings.resume;
  if (resume == "allow" || resume == "must" || resume == "auto") return true;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run_.id));
  return std::any_of(streams.begin(), streams.end(), [](const model::Stream& stream) {
    return stream.launch.requeue > 0 || stream.launch.restart > 0;
  });
}

// Where the run was asked to begin; not its own end.
absl::optional<BranchPoint> WandbDelivery::Fork() const {
  const absl::StatusOr<BranchPoint> point = ParseBranchPoint(run_.settings.Of(kKind, kForkFrom));
  if (!point.ok() || point->run_id == run_.run_id) return absl::nullopt;
  return *point;
}

// Rows with given steps up to `step` are replays, and those without a step come after it.
void WandbDelivery::BeginAfter(int64_t step) {
  cursor_.replays_through = std::max(cursor_.replays_through, step);
  DropCut();
  history_.SetFirstStep(cursor_.replays_through);
}

void WandbDelivery::DropCut() {
  cursor_.cut_rows = 0;
  lines_ = {};
  bare_.clear();
  bisection_.Clear();
  bare_line_trial_.reset();
  hold_summary_ = false;
  if (history_.next() > delivery_.delivered_rows) history_.Rewind();
}

}  // namespace ranklog::deliver::wandb
