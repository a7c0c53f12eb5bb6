// The part of WandbDelivery that posts to the file stream: rows, summary, heartbeats, and the end
// of the run.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/run_shapes.h"
#include "service/deliver/wandb/api/file_stream.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/documents/summary_document.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr size_t kReadBytes = 512 << 10;  // per read; lines are five times as long
// After a failed post, more lines than this are dropped and written again.
constexpr size_t kKeptLines = 1 << 20;
// A server that refuses a post of this size for its size refuses a row.
constexpr size_t kSmallestPost = 64 << 10;

}  // namespace

absl::StatusOr<absl::Duration> WandbDelivery::Stream(storage::StoreReader& reader, absl::Time now,
                                                     bool draining) {
  RETURN_IF_ERROR(WriteSamples(reader));
  if (cursor_.cut_rows > 0) return MustAsk(now) ? AskStanding(now) : PostCut(reader, now);
  if (cursor_.continued) return PostAfterOthers(reader, now, draining);
  const bool pending = run_.rows > delivery_.delivered_rows;
  // A definition may arrive after the last row and change how its metric is summarized.
  const uint64_t version = table_.version();
  RETURN_IF_ERROR(DefineMetrics(reader, config_reader_.items()));
  summary_changed_ |= table_.version() != version;
  if (samples_alone_) return MustAsk(now) ? AskStanding(now) : PostRows(0, now);
  const bool samples = HasSamples() || cursor_.cut_samples > 0;
  const bool may_send = MaySendRows(now, draining);
  const bool ending = !pending && ended() && !samples && !hold_summary_ && cursor_.created();
  if (!pending || !may_send) {
    ASSIGN_OR_RETURN(const auto console_wait, SendConsole(reader, now, ending || draining));
    if (console_wait) return *console_wait;
    if (const auto wait = SendContent(ending, now)) return *wait;
    if (options_.files) {
      if (ending && !console_file_) RETURN_IF_ERROR(ReadConsoleFile(reader));
      if (!ending) console_file_.reset();
      if (const auto wait = SendFiles(ending, now)) return *wait;
    }
  }
  const bool files = !cursor_.unannounced_files.empty();
  if (pending && may_send) return MustAsk(now) ? AskStanding(now) : Cut(reader);
  if (!pending && (ended() || ((summary_changed_ || samples || files) && may_send))) {
    if (MustAsk(now)) return AskStanding(now);
    if (CutSamples()) return absl::ZeroDuration();
    return PostRows(0, now);
  }
  if (!ended() && now >= last_request_ + options_.heartbeat_interval) return PostRows(0, now);

  absl::Time next = std::min(last_request_ + options_.heartbeat_interval, next_config_);
  next = std::min(next, pending || samples || files || summary_changed_
                            ? last_data_ + options_.transmit_interval
                            : now + options_.poll_interval);
  return std::max(std::min(next - now, options_.poll_interval), absl::ZeroDuration());
}

// Another store continues the run. The remaining rows of this store go after its lines, once no
// other store is writing. The standing is checked before each post.
absl::StatusOr<absl::Duration> WandbDelivery::PostAfterOthers(storage::StoreReader& reader,
                                                              absl::Time now, bool draining) {
  if (run_.rows == delivery_.delivered_rows) {
    if (const auto wait = SendContent(ended(), now)) return *wait;
    if (!ended()) return options_.poll_interval;
    stop_requested_ = false;
    delivery_.complete = true;  // the other store sends the end, and set config and summary
    delivery_.delivered_items = std::max(delivery_.delivered_items, SettledOf(run_.last_item));
    delivery_.last_error.clear();
    return absl::InfiniteDuration();
  }
  if (!MaySendRows(now, draining)) return options_.poll_interval;
  if (MustAsk(now)) return AskStanding(now);
  if (other_store_active_) {
    known_at_ = absl::InfinitePast();
    return StandingUnknown(
        Blocked(absl::StrCat("another store is writing to run ", cursor_.run_id,
                             "; this store sends its remaining rows (",
                             run_.rows - delivery_.delivered_rows, ") after the run has ended"),
                now));
  }
  RETURN_IF_ERROR(DefineMetrics(reader, config_reader_.items()));
  return Cut(reader);
}

bool WandbDelivery::MaySendRows(absl::Time now, bool draining) const {
  if (draining || ended() || now >= last_data_ + options_.transmit_interval) return true;
  const auto pending = static_cast<double>(run_.rows - delivery_.delivered_rows);
  return pending * bytes_per_row_ >= static_cast<double>(post_bytes_);
}

// Chooses the rows of the next post and the definitions that apply to them, or skips replays. The
// result is stored before the rows are sent. So a daemon that is restarted before the answer sends
// the same lines again.
absl::StatusOr<absl::Duration> WandbDelivery::Cut(storage::StoreReader& reader) {
  if (history_.next() == delivery_.delivered_rows) {
    history_.Mark();
  } else {
    history_.Rewind();  // the last read of the store failed before the end
  }
  lines_ = {};
  // The rows of a new attempt need its start.
  if (clock_attempt_ != run_.attempt) RETURN_IF_ERROR(ReadConfig(reader));
  RETURN_IF_ERROR(WriteLines(reader, run_.rows, post_bytes_));
  if (lines_.ends.empty()) return PassReplays(reader);
  CutSamples();
  cursor_.cut_rows = lines_.ends.size();
  cursor_.cut_updates = defined_items_;
  cursor_.cut_clock = history_.clock().Attempts();
  bytes_per_row_ = static_cast<double>(lines_.line_bytes) / static_cast<double>(lines_.ends.size());
  return absl::ZeroDuration();
}

// Skips some of the next rows, which are replays. Rows after them get the line numbers that the
// replays would have had.
absl::StatusOr<absl::Duration> WandbDelivery::PassReplays(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                   reader.RunBatches(run_.id, history_.next(), kReadBytes));
  for (const storage::StoredBatch& stored : batches) {
    RETURN_IF_ERROR(ReadShapes(reader, run_.id, stored.batch, &shapes_));
    history_.SkipReplays(stored.batch, shapes_, run_.rows);
    if (history_.next() <= stored.batch.last) break;
  }
  const uint64_t replays = history_.next() - delivery_.delivered_rows;
  delivery_.delivered_rows += replays;
  cursor_.replayed_rows += replays;
  cursor_.base_offset -= static_cast<int64_t>(replays);
  summary_changed_ = true;
  return absl::ZeroDuration();
}

// Writes lines_ from history_.next() up to a replay.
absl::Status WandbDelivery::WriteLines(storage::StoreReader& reader, uint64_t to,
                                       size_t max_bytes) {
  lines_.first = history_.next();
  while (history_.next() < to && !history_.at_replay() &&
         (lines_.ends.empty() || lines_.line_bytes < max_bytes)) {
    const uint64_t before = history_.next();
    ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                     reader.RunBatches(run_.id, before, kReadBytes));
    for (const storage::StoredBatch& stored : batches) {
      RETURN_IF_ERROR(ReadShapes(reader, run_.id, stored.batch, &shapes_));
      history_.Write(stored.batch, shapes_, to, max_bytes, bare_, &lines_);
      if (history_.at_replay()) break;
    }
    if (history_.next() == before && !history_.at_replay()) {
      return absl::DataLossError(
          absl::StrCat("row ", before, " of run ", run_.run_id, " is not in the store"));
    }
  }
  summary_changed_ = true;
  return absl::OkStatus();
}

// Writes the lines of the cut, unless they exist already.
absl::Status WandbDelivery::WriteCut(storage::StoreReader& reader) {
  const uint64_t end = delivery_.delivered_rows + cursor_.cut_rows;
  if (lines_.end() == end) return absl::OkStatus();
  if (history_.next() == delivery_.delivered_rows) {  // the cut is from an earlier daemon
    RETURN_IF_ERROR(DefineMetrics(reader, cursor_.cut_updates));
    history_.Mark();
  } else {
    history_.Rewind();
  }
  lines_ = {};
  return WriteLines(reader, end, SIZE_MAX);
}

absl::StatusOr<absl::Duration> WandbDelivery::PostCut(storage::StoreReader& reader,
                                                      absl::Time now) {
  RETURN_IF_ERROR(WriteCut(reader));
  return PostRows(bisection_.Rows(delivery_.delivered_rows, cursor_.cut_rows), now);
}

// Posts the first `rows` rows of the cut, the summary if it changed, and the run's end if nothing
// else remains. With none of these, the post is the heartbeat.
absl::Duration WandbDelivery::PostRows(uint64_t rows, absl::Time now) {
  const uint64_t first = delivery_.delivered_rows;
  StreamPost post;
  post.history_offset = cursor_.base_offset + static_cast<int64_t>(first);
  post.history = lines_.Of(first, rows);
  // The end is sent with the summary. So it waits until it is clear whether the summary can be
  // sent, and until all definitions apply. Definitions after the cut do not apply yet.
  const bool whole = !hold_summary_ && defined_items_ >= config_reader_.items();
  const bool ours = !cursor_.continued;  // we send config, summary and end
  const bool alone = samples_alone_ && rows == 0 && ours && !events_.empty();
  const bool with_samples = !events_.empty() && ours && (!samples_alone_ || alone);
  const bool all_samples = cursor_.samples + (with_samples ? events_.size() : 0) == run_.samples;
  // The last files follow the last row.
  const bool files_sent =
      (!options_.files && content_items_.empty()) || (rows == 0 && !with_samples);
  const bool last = ours && ended() && first + rows == run_.rows && (rows == 0 || whole) &&
                    all_samples && files_sent && !alone;
  std::string summary;
  if (ours && (summary_changed_ || last) && !hold_summary_ && !alone) {
    summary = SummaryText(RefusedBefore(first + rows));
  }
  const bool with_summary = !summary.empty() && summary.size() <= options_.max_line_bytes &&
                            summary != sent_summary_ && summary != refused_summary_;
  if (with_summary) post.summary = summary;
  if (ours) post.uploaded = cursor_.unannounced_files;
  if (with_samples) {
    post.events_offset = cursor_.events_offset + static_cast<int64_t>(cursor_.samples);
    post.events = events_;
  }
  post.preempting = ours ? preempting_ : server_state_ == "preempted";
  if (last) post.exit_code = ExitCode();
  // Otherwise the post would reopen the run.
  if (!ours && server_exit_code_.has_value()) post.exit_code = *server_exit_code_;

  const absl::StatusOr<HttpResponse> answer = Post(Endpoint::kFileStream, StreamBody(post));
  const Outcome outcome = Classify(answer);
  if (IsRefusal(outcome)) {
    if (alone) return SamplesRefused(answer);
    if (with_samples) {
      samples_alone_ = true;
      if (rows > 0 || with_summary || last) return absl::ZeroDuration();
      return SamplesRefused(answer);
    }
    if (with_summary && rows > 0 && outcome == Outcome::kTooLarge) {
      // Rows and summary may each be small enough: the summary is sent alone after these rows.
      if (post.history.size() >= summary.size()) CutLess();
      hold_summary_ = true;
      return absl::ZeroDuration();
    }
    if (with_summary) refused_summary_ = std::move(summary);
    return RowsRefused(outcome, rows, with_summary, answer, now);
  }
  if (outcome != Outcome::kAccepted) {
    if (lines_.content.size() > kKeptLines) lines_ = {};
    return Failed(outcome, "post to the file stream", answer, now);
  }
  stop_requested_ = !last && answer.ok() && SaysStop(*answer);
  if (with_summary) sent_summary_ = std::move(summary);
  if (!hold_summary_ && !alone) summary_changed_ = false;
  if (rows > 0 || with_summary || with_samples) last_data_ = now;
  if (with_samples) SamplesSettled();
  if (ours) cursor_.unannounced_files.clear();
  return Accepted(rows, last, now);
}

absl::Duration WandbDelivery::Accepted(uint64_t rows, bool last, absl::Time now) {
  SettleRefusals(delivery_.delivered_rows + rows);
  delivery_.delivered_rows += rows;
  delivery_.complete = last;
  SettleItems();
  cursor_.cut_rows -= rows;
  if (rows > 0) known_at_ = now;
  reopened_ |= cursor_.continued && !server_exit_code_.has_value();
  if (cursor_.cut_rows == 0) {
    DropCut();
    if (cursor_.continued || ask_after_cut_) known_at_ = absl::InfinitePast();
  }
  last_request_ = now;
  delivery_.last_error.clear();
  OnSuccess();
  return last ? absl::InfiniteDuration() : absl::ZeroDuration();
}

// The number of refused rows if the server accepts a post up to row `end`; see SettleRefusals().
uint64_t WandbDelivery::RefusedBefore(uint64_t end) const {
  const uint64_t first = delivery_.delivered_rows;
  uint64_t refused = delivery_.refused_rows;
  for (const HistoryLines::TooLong& line : lines_.too_long) {
    if (line.row >= first && line.row < end) ++refused;
  }
  return refused + (bare_line_trial_.has_value() && end > first ? 1 : 0);
}

// The server accepted a post up to row `end`. So the parts that were left out of it were at fault.
void WandbDelivery::SettleRefusals(uint64_t end) {
  const uint64_t first = delivery_.delivered_rows;
  for (HistoryLines::TooLong& line : lines_.too_long) {
    if (line.row < first || line.row >= end) continue;
    AddDeadLetter(line.row,
                  absl::StrCat("not sent: a line of ", line.bytes, " bytes; the limit is ",
                               options_.max_line_bytes),
                  std::move(line.content));
    ++delivery_.refused_rows;
  }
  if (bare_line_trial_.has_value() && end > first) {
    AddDeadLetter(bare_line_trial_->row, std::move(bare_line_trial_->answer),
                  std::move(bare_line_trial_->content));
    ++delivery_.refused_rows;
    bare_line_trial_.reset();
    bisection_.Clear();
  }
  if (!summary_answer_.empty()) {
    AddDeadLetter(end == 0 ? 0 : end - 1,
                  absl::StrCat(kSummaryLetter, std::exchange(summary_answer_, "")),
                  refused_summary_);
  }
}

// Determines what the server refuses: the summary or one of the rows. A row is at fault only if the
// server accepts a bare line in its place. If the server refuses that too, it refuses us.
absl::Duration WandbDelivery::RowsRefused(Outcome outcome, uint64_t rows, bool with_summary,
                                          const absl::StatusOr<HttpResponse>& answer,
                                          absl::Time now) {
  const uint64_t first = delivery_.delivered_rows;
  if (with_summary) {
    hold_summary_ = rows > 0;
    summary_answer_ = Explain(answer);
    return absl::ZeroDuration();
  }
  refused_summary_.clear();  // the summary was not the cause
  summary_answer_.clear();
  if (rows == 0 || bare_line_trial_.has_value()) {
    bare_line_trial_.reset();
    bare_.erase(first);
    lines_ = {};
    return Failed(Outcome::kBlocked, "post to the file stream", answer, now);
  }
  if (outcome == Outcome::kTooLarge) CutLess();
  if (rows > 1) {
    bisection_.Refused(first, rows);
    return absl::ZeroDuration();
  }
  bare_line_trial_.emplace();
  bare_line_trial_->row = first;
  bare_line_trial_->answer = Explain(answer);
  bare_line_trial_->content = lines_.Shown(first);
  bisection_.Refused(first, 1);
  bare_.insert(first);
  lines_ = {};
  return absl::ZeroDuration();
}

void WandbDelivery::CutLess() { post_bytes_ = std::max(post_bytes_ / 2, kSmallestPost); }

std::string WandbDelivery::SummaryText(uint64_t refused_rows) const {
  return SummaryDocument(run_, history_.clock(), history_.SummaryJson(), cursor_.summary_before,
                         config_reader_.lost_rows() + refused_rows, options_.max_line_bytes);
}

int32_t WandbDelivery::ExitCode() const {
  if (run_.state == model::RunState::kFinished) return 0;
  return run_.exit_code != 0 ? run_.exit_code : 1;
}

}  // namespace ranklog::deliver::wandb
