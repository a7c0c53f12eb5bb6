#include "service/deliver/clickhouse/description.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/aggregate/run_config.h"
#include "service/base/status_macros.h"
#include "service/deliver/clickhouse/api.h"
#include "service/deliver/clickhouse/format/blocks.h"
#include "service/deliver/json/json_writer.h"

namespace ranklog::deliver::clickhouse {
namespace {

constexpr size_t kScanBytes = 4 << 20;

// DateTime64(6) reads a decimal number of seconds.
std::string TimeText(int64_t time_us) {
  return absl::StrFormat("%d.%06d", time_us / 1'000'000, time_us % 1'000'000);
}

model::Json EndOf(int64_t time_us) {
  return time_us == 0 ? model::Json(nullptr) : model::Json(TimeText(time_us));
}

absl::string_view StateName(const model::Stream& stream) {
  switch (stream.state) {
    case model::StreamState::kLive:
      return "running";
    case model::StreamState::kFinished:
      return stream.exit_code == 0 ? "finished" : "failed";
    default:
      return "crashed";
  }
}

std::string Text(absl::string_view text) { return std::string(text.data(), text.size()); }

model::Json RankRow(const model::Run& run, const std::string& name, const model::Stream& stream,
                    uint64_t version) {
  model::Json losses = model::Json::object();
  for (const auto& [reason, count] : model::kLossCounters) {
    if (stream.losses.*count > 0) losses[reason] = stream.losses.*count;
  }
  if (stream.losses.items > 0) losses["items"] = stream.losses.items;
  return {{"project", run.project},
          {"run", name},
          {"stream", stream.key.incarnation},
          {"version", version},
          {"rank", stream.key.rank},
          {"local_rank", stream.identity.local_rank},
          {"world_size", stream.identity.world_size},
          {"node", stream.identity.node},
          {"attempt", stream.attempt},
          {"thread", stream.identity.thread},
          {"pid", stream.identity.pid},
          {"state", Text(StateName(stream))},
          {"exit_code", stream.exit_code},
          {"reason", stream.reason},
          {"started", TimeText(stream.started_us)},
          {"ended", EndOf(stream.ended_us)},
          {"rows", stream.durable_seq},
          {"late_rows", stream.late_rows},
          {"lost_rows", stream.losses.total()},
          {"losses", std::move(losses)}};
}

}  // namespace

std::string ConfigText(const model::Run& run, absl::Span<const model::Stream> streams,
                       absl::Span<const model::StoredItem> items) {
  return ToJsonText(aggregate::RunConfig(run, streams, items));
}

Description Describe(const model::Run& run, absl::Span<const model::Stream> streams,
                     absl::Span<const model::StoredItem> items, const std::string& config,
                     const std::string& summary, uint64_t version) {
  Description description;
  const std::string name = RunName(run, streams);
  std::string digested;
  for (const model::Stream& stream : streams) {
    description.ranks += ToJsonText(RankRow(run, name, stream, version)) + "\n";
    model::Stream same = stream;
    same.durable_seq = 0;
    digested += ToJsonText(RankRow(run, name, same, 0));
  }
  const model::RunSettings& settings = run.settings;
  const bool ended = run.state != model::RunState::kRunning;
  model::Json row = {{"project", run.project},
                     {"run", name},
                     {"part", PartOf(streams)},
                     {"run_id", run.run_id},
                     {"name", run.name},
                     {"job_group", settings.group},
                     {"job_type", settings.job_type},
                     {"notes", settings.notes},
                     {"tags", settings.tags},
                     {"strategy", Text(model::Name(settings.strategy))},
                     // The part with rank 0 describes the job.
                     {"is_primary", !run.local_only && run.primary_rank == 0 ? 1 : 0},
                     {"node", streams.empty() ? "" : streams.front().identity.node},
                     {"host", settings.host},
                     {"program", settings.program},
                     {"state", Text(model::Name(run.state))},
                     {"exit_code", run.exit_code},
                     {"reason", run.reason},
                     {"started", TimeText(run.started_us)},
                     {"ended", ended ? EndOf(run.ended_us) : model::Json(nullptr)},
                     {"config", config},
                     {"summary", summary},
                     {"metadata", ToJsonText(aggregate::RunMetadata(run, streams, items))}};
  digested += ToJsonText(row);
  description.digest = Digest(digested);
  row["version"] = version;
  row["rows"] = run.rows;
  row["last_step"] = run.last_step;
  row["late_rows"] = run.late_rows;
  description.run = ToJsonText(row) + "\n";
  return description;
}

RunSummaryReader::RunSummaryReader(absl::Span<const model::StoredItem> items,
                                   absl::Span<const model::Stream> streams) {
  for (const model::StoredItem& stored : items) {
    if (stored.item.kind == model::Item::Kind::kMetric) table_.Define(stored.item.metric);
  }
  for (const aggregate::SummaryValue& value : aggregate::SummaryValues(streams, items)) {
    summary_.Set(value);
  }
}

absl::StatusOr<bool> RunSummaryReader::Read(storage::StoreReader& reader, const model::Run& run) {
  if (next_row_ >= run.rows) return true;
  ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                   reader.RunBatches(run.id, next_row_, kScanBytes));
  ASSIGN_OR_RETURN(const std::vector<std::vector<std::string>> shapes, reader.RunShapes(run.id));
  if (batches.empty()) return absl::DataLossError("rows of the run are not in the store");
  for (const storage::StoredBatch& stored : batches) {
    const model::Batch& batch = stored.batch;
    if (batch.last < next_row_) continue;
    summary_.Add(batch.first == next_row_ ? batch : model::Part(batch, next_row_, batch.last),
                 shapes);
    next_row_ = batch.last + 1;
  }
  return next_row_ >= run.rows;
}

std::string RunSummaryReader::Text() const { return ToJsonText(summary_.ToJson()); }

absl::StatusOr<std::vector<model::Stream>> OwnStreams(storage::StoreReader& reader, int64_t run) {
  ASSIGN_OR_RETURN(std::vector<model::Stream> streams, reader.Streams(run));
  streams.erase(std::remove_if(streams.begin(), streams.end(),
                               [](const model::Stream& stream) { return !stream.peer.empty(); }),
                streams.end());
  return streams;
}

}  // namespace ranklog::deliver::clickhouse
