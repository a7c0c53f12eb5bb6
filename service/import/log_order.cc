// The part of LogImport that compares the log with the other parts of its run in the store.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/import/log_import.h"

namespace ranklog::imports {
namespace {

// The step of a stored row; -1: there is no such row.
absl::StatusOr<int64_t> StepOf(storage::StoreReader& reader, const model::Stream& stream,
                               uint64_t seq) {
  int64_t step = -1;
  if (seq == 0) return step;
  ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                   reader.StreamBatches(stream.id, seq - 1, /*max_bytes=*/1));
  for (const storage::StoredBatch& stored : batches) {
    model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t at) {
      if (at == seq) step = block.steps[row];
    });
  }
  return step;
}

}  // namespace

absl::Status LogImport::CheckOrder(storage::StoreReader& reader) const {
  const Target& target = options_.target;
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  for (const model::Run& run : runs) {
    if (run.project != target.project || run.run_id != target.run_id) continue;
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
    const model::Stream* later = nullptr;
    for (const model::Stream& stream : streams) {
      if (stream.key.incarnation == log_.id) return absl::OkStatus();
      if (stream.init_us > log_.started_us) later = &stream;
    }
    if (later == nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("run ", target.run_id, " was imported with a later part, of ",
                     absl::FormatTime(absl::FromUnixMicros(later->init_us)),
                     ", without this one, and a tracker takes rows only in their order"));
  }
  return absl::OkStatus();
}

absl::Status LogImport::FollowEarlierParts(storage::StoreReader& reader, int64_t last_step) {
  int64_t last = last_step;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(stream_.run));
  for (const model::Stream& stream : streams) {
    if (stream.id == stream_.id || stream.init_us > log_.started_us) continue;
    ASSIGN_OR_RETURN(const int64_t step, StepOf(reader, stream, stream.durable_seq));
    last = std::max(last, step);
  }
  if (stream_.durable_seq == 0) {
    if (last >= 0) rows_->Follow(last, log_.run.resume());
    return absl::OkStatus();
  }
  // The first row shows how an earlier import began.
  ASSIGN_OR_RETURN(const int64_t first, StepOf(reader, stream_, 1));
  ASSIGN_OR_RETURN(const int64_t newest, StepOf(reader, stream_, stream_.durable_seq));
  if (log_.run.resume() || (last >= 0 && first > last)) rows_->Follow(newest, /*always=*/true);
  return absl::OkStatus();
}

}  // namespace ranklog::imports
