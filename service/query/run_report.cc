#include "service/query/run_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/deliver/advice.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/retry.h"

namespace ranklog::query {
namespace {

using model::Json;

DestinationReport ReportDestination(const model::Run& run, const model::Delivery& delivery) {
  DestinationReport report;
  report.kind = delivery.kind;
  // `delivered_rows` is the delivery's cursor, which also passes refused and unsent rows.
  const uint64_t passed =
      delivery.kind == kLocal ? run.rows : std::min(delivery.delivered_rows, run.rows);
  report.replayed_rows = std::min(delivery.replayed_rows(), passed);
  report.refused_rows = std::min(delivery.refused_rows, passed - report.replayed_rows);
  report.delivered_rows = passed - report.replayed_rows - report.refused_rows;
  report.pending_rows = run.rows - passed;
  report.pending_items = delivery.pending_items;
  report.complete = delivery.complete;
  report.last_error = delivery.last_error;
  report.set_apart = delivery.set_apart() && !delivery.complete;
  const deliver::Destination* const destination = deliver::FindDestination(delivery.kind);
  if (destination != nullptr) report.url = destination->RunPage(run, delivery);
  return report;
}

absl::Status CountUploads(storage::StoreReader& reader, const model::Delivery& delivery,
                          DestinationReport* report) {
  if (delivery.kind == kLocal) return absl::OkStatus();
  const model::Delivery::Uploads done = delivery.uploads();
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> uploads,
                   reader.Uploads(delivery.run, done.through));
  for (const model::StoredItem& upload : uploads) {
    for (const model::Item::StagedFile& file : upload.item.StagedFiles()) {
      ++report->pending_files;
      report->pending_file_bytes += file.bytes;
    }
  }
  report->pending_files -= std::min(report->pending_files, done.sent_files);
  report->pending_file_bytes -= std::min(report->pending_file_bytes, done.sent_bytes);
  return absl::OkStatus();
}

// One report for each destination of the run, even if its delivery has not started.
absl::StatusOr<std::vector<DestinationReport>> ReportDestinations(
    storage::StoreReader& reader, const model::Run& run,
    const std::vector<model::Delivery>& deliveries) {
  std::vector<DestinationReport> reports;
  if (run.primary_chosen) {
    for (const std::string& kind : run.settings.destinations) {
      if (run.local_only && !deliver::TakesParts(kind.c_str())) continue;
      const auto found = std::find_if(deliveries.begin(), deliveries.end(),
                                      [&](const model::Delivery& d) { return d.kind == kind; });
      if (found != deliveries.end()) continue;
      model::Delivery not_begun;
      not_begun.run = run.id;
      not_begun.kind = kind;
      reports.push_back(ReportDestination(run, not_begun));
      RETURN_IF_ERROR(CountUploads(reader, not_begun, &reports.back()));
    }
  }
  for (const model::Delivery& delivery : deliveries) {
    reports.push_back(ReportDestination(run, delivery));
    if (delivery.pending_items > 0) {
      RETURN_IF_ERROR(CountUploads(reader, delivery, &reports.back()));
    }
  }
  return reports;
}

absl::optional<JoinedReport> ReportJoined(const std::vector<model::Stream>& streams) {
  JoinedReport report;
  report.complete = true;
  bool any = false;
  for (const model::Stream& stream : streams) {
    const bool open = stream.joined == model::Joined::kOpen;
    const uint64_t there = std::min(stream.joined_seq, stream.durable_seq);
    const uint64_t late = std::min(stream.joined_late, there);
    any |= stream.joins;
    report.complete &= !open;
    report.rows += stream.durable_seq;
    report.joined += there - late;
    report.late += late;
    if (stream.joined == model::Joined::kLate) report.late += stream.durable_seq - there;
  }
  return any ? absl::make_optional(report) : absl::nullopt;
}

void CountHeard(const std::vector<model::Stream>& streams, RunReport* report) {
  const model::Run& run = report->run;
  if (run.settings.strategy != model::LogStrategy::kMain || run.local_only ||
      run.primary_rank != 0) {
    return;
  }
  uint32_t newest = 0;
  for (const model::Stream& stream : streams) newest = std::max(newest, stream.attempt);
  std::set<uint32_t> heard;
  for (const model::Stream& stream : streams) {
    if (stream.attempt < newest) continue;
    heard.insert(stream.key.rank);
    report->world_size = std::max(report->world_size, stream.identity.world_size);
  }
  report->heard_ranks = static_cast<uint32_t>(heard.size());
}

Json TextOf(absl::string_view text) { return std::string(text); }

}  // namespace

Json LossesJson(const model::Losses& losses) {
  Json json = Json::object();
  for (const auto& [name, count] : model::kLossCounters) json[name] = losses.*count;
  return json;
}

std::string LossesText(const model::Losses& losses) {
  std::string text;
  for (const auto& [name, rows] : model::kLossReasons) {
    if (losses.*rows == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", losses.*rows);
  }
  return text;
}

std::string ValuesText(const model::Losses& losses) {
  if (losses.values == 0) return "";
  return absl::StrCat(Counted(losses.values, "value"), " left out of rows");
}

std::string ReplayedText(const DestinationReport& destination) {
  if (destination.replayed_rows == 0) return "";
  return absl::StrCat(", ", destination.replayed_rows, " replayed");
}

std::string UploadsText(const DestinationReport& destination) {
  if (destination.pending_files == 0) return "";
  return absl::StrCat(Counted(destination.pending_files, "file"), ", ",
                      BytesText(static_cast<int64_t>(destination.pending_file_bytes)));
}

bool IsOpen(const RunReport& report, const DestinationReport& destination) {
  if (destination.pending_rows > 0 || destination.pending_items > 0) return true;
  return !destination.complete && report.run.state != model::RunState::kRunning;
}

bool AwaitsPerson(const RunReport& report, const DestinationReport& destination) {
  return IsOpen(report, destination) && deliver::AwaitsPerson(destination.last_error);
}

absl::StatusOr<RunReport> ReportRun(storage::StoreReader& reader, const model::Run& run,
                                    const StoppedRuns& stopped) {
  RunReport report;
  report.run = run;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  std::map<uint32_t, RankReport> ranks;
  for (const model::Stream& stream : streams) {
    RankReport& rank = ranks[stream.key.rank];
    rank.rank = stream.key.rank;
    rank.node = stream.identity.node;
    rank.rows += stream.durable_seq - stream.losses.with_store;
    rank.items += stream.durable_item - stream.lost_items - stream.console_items;
    rank.lost_items += stream.lost_items;
    rank.late_rows += stream.late_rows;
    rank.replayed_rows += stream.replayed_rows;
    if (stream.state == model::StreamState::kLive && rank.unnamed.empty()) {
      rank.unnamed = stream.reason;
    }
    if (model::SpoolIsUnread(stream)) rank.unread = stream.reason;
    rank.losses += stream.losses;
    report.losses += stream.losses;
  }
  for (const auto& [number, rank] : ranks) report.ranks.push_back(rank);
  CountHeard(streams, &report);
  if (run.local_only) report.joined = ReportJoined(streams);
  ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader.Deliveries(run.id));
  ASSIGN_OR_RETURN(report.destinations, ReportDestinations(reader, run, deliveries));
  const auto why = stopped.find(run.id);
  if (why != stopped.end()) report.stopped = why->second;
  return report;
}

absl::StatusOr<std::vector<RunReport>> ReportRuns(storage::StoreReader& reader,
                                                  const StoppedRuns& stopped) {
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  std::vector<RunReport> reports;
  for (const model::Run& run : runs) {
    ASSIGN_OR_RETURN(reports.emplace_back(), ReportRun(reader, run, stopped));
  }
  return reports;
}

std::vector<std::string> UnnamedTexts(const RunReport& report) {
  std::map<std::string, std::vector<uint32_t>> ranks;  // by reason
  for (const RankReport& rank : report.ranks) {
    if (!rank.unnamed.empty()) ranks[rank.unnamed].push_back(rank.rank);
  }
  std::vector<std::string> texts;
  for (const auto& [reason, of] : ranks) {
    texts.push_back(absl::StrCat(of.size() == 1 ? "rank " : "ranks ", absl::StrJoin(of, ", "),
                                 " of ", report.run.run_id, ": ", reason));
  }
  return texts;
}

std::string JoinedText(const RunReport& report) {
  if (!report.joined) return "";
  const JoinedReport& joined = *report.joined;
  return absl::StrCat(joined.joined, " of ", Counted(joined.rows, "row"), " joined those of rank 0",
                      joined.late > 0 ? absl::StrCat(", ", joined.late, " came too late") : "",
                      joined.complete ? "" : " so far");
}

std::string HeardText(const RunReport& report) {
  if (report.heard_ranks >= report.world_size) return "";
  return absl::StrCat(report.heard_ranks, " of ", report.world_size, " ranks have attached");
}

std::string InSpoolsText(const RunReport& report) {
  if (report.in_spools == 0) return "";
  return absl::StrCat(Counted(report.in_spools, "row"), " of ", report.run.run_id,
                      report.in_spools == 1 ? " is" : " are", " only in spools");
}

std::string StoppedText(const RunReport& report) {
  return absl::StrCat("run ", report.run.run_id, " is stopped: ", report.stopped);
}

std::vector<std::string> UnreadTexts(const RunReport& report) {
  std::vector<std::string> texts;
  for (const RankReport& rank : report.ranks) {
    if (rank.unread.empty()) continue;
    texts.push_back(absl::StrCat("rows may be missing (number unknown): ", rank.unread, " (run ",
                                 report.run.run_id, ")"));
  }
  return texts;
}

Json ToJson(const RunReport& report) {
  const model::Run& run = report.run;
  Json ranks = Json::array();
  for (const RankReport& rank : report.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"node", rank.node},
                     {"rows", rank.rows},
                     {"lost", rank.losses.total()},
                     {"losses", LossesJson(rank.losses)},
                     {"items", rank.items},
                     {"lost_items", rank.lost_items},
                     {"refused_items", rank.losses.items},
                     {"late_rows", rank.late_rows},
                     {"replayed_rows", rank.replayed_rows},
                     {"unnamed_spool", rank.unnamed},
                     {"unread_spool", rank.unread}});
  }
  Json destinations = Json::array();
  for (const DestinationReport& destination : report.destinations) {
    destinations.push_back({{"kind", destination.kind},
                            {"delivered_rows", destination.delivered_rows},
                            {"pending_rows", destination.pending_rows},
                            {"refused_rows", destination.refused_rows},
                            {"pending_items", destination.pending_items},
                            {"replayed_rows", destination.replayed_rows},
                            {"pending_files", destination.pending_files},
                            {"pending_file_bytes", destination.pending_file_bytes},
                            {"complete", destination.complete},
                            {"last_error", ErrorText(report, destination)},
                            {"set_apart", destination.set_apart},
                            {"url", destination.url}});
  }
  Json json = {{"run_id", run.run_id},
               {"name", run.name},
               {"group", run.settings.group},
               {"project", run.project},
               {"strategy", TextOf(model::Name(run.settings.strategy))},
               {"state", TextOf(model::Name(run.state))},
               {"rows", run.rows},
               {"last_step", run.last_step},
               {"ranks", ranks},
               {"destinations", destinations},
               {"late_rows", run.late_rows},
               {"replayed_rows", run.replayed_rows},
               {"in_spools", report.in_spools},
               {"world_size", report.world_size},
               {"heard_ranks", report.heard_ranks},
               {"local_only", run.local_only},
               {"notice", run.notice},
               {"refused", run.refused},
               {"stopped", report.stopped},
               {"entity", run.settings.entity},
               {"job_type", run.settings.job_type},
               {"tags", run.settings.tags},
               {"notes", run.settings.notes},
               {"started", static_cast<double>(run.started_us) / 1e6}};
  if (const auto& joined = report.joined) {
    json["joined"] = {{"rows", joined->rows},
                      {"joined", joined->joined},
                      {"late", joined->late},
                      {"complete", joined->complete}};
  }
  if (run.state != model::RunState::kRunning) {
    json["ended"] = static_cast<double>(run.ended_us) / 1e6;
    json["exit_code"] = run.exit_code;
    json["reason"] = run.reason;
  }
  return json;
}

std::string ErrorText(const RunReport& report, const DestinationReport& destination) {
  return deliver::WithRun(destination.last_error, report.run.run_id);
}

std::vector<std::pair<std::string, std::vector<std::string>>> WaitingReasons(
    const std::vector<RunReport>& reports, const std::string& kind) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const RunReport& report : reports) {
    for (const DestinationReport& destination : report.destinations) {
      if (destination.kind != kind || destination.last_error.empty()) continue;
      if (!IsOpen(report, destination)) continue;
      auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) {
        return reason.first == destination.last_error;
      });
      if (found == reasons.end()) {
        found = reasons.insert(found, {destination.last_error, std::vector<std::string>()});
      }
      found->second.push_back(report.run.run_id);
    }
  }
  for (auto& [reason, runs] : reasons) {
    if (runs.size() == 1) reason = deliver::WithRun(reason, runs.front());
  }
  return reasons;
}

std::vector<std::string> WaitingTexts(const std::vector<RunReport>& reports,
                                      const std::string& kind) {
  constexpr size_t kShown = 3;  // runs per reason, so that the text stays on one line
  std::vector<std::string> texts;
  for (const auto& [reason, runs] : WaitingReasons(reports, kind)) {
    const auto end = runs.begin() + static_cast<std::ptrdiff_t>(std::min(runs.size(), kShown));
    texts.push_back(absl::StrCat(
        reason, " (run ", absl::StrJoin(runs.begin(), end, ", "),
        runs.size() > kShown ? absl::StrCat(" and ", runs.size() - kShown, " more") : "", ")"));
  }
  return texts;
}

}  // namespace ranklog::query
