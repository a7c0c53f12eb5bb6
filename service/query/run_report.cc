#include "service/query/run_report.h"

#include <algorithm>
#include <map>
#include <set>

#include "service/base/status_macros.h"
#include "service/deliver/advice.h"
#include "service/deliver/destination.h"

namespace ranklog::query {
namespace {

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

}  // namespace

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

}  // namespace ranklog::query
