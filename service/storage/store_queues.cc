#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/records.h"
#include "service/storage/store_reader.h"

namespace ranklog::storage {
namespace {

// For each delivery, reads the rows of about this many bytes and estimates the size of the rest,
// because a backlog of days has millions of batches.
constexpr size_t kMeasuredBytes = 256 << 10;

struct Waiting {
  int64_t run = 0;
  std::string kind;
  uint64_t first = 0;  // the index of the first waiting row
  uint64_t rows = 0;
};

// When the oldest row of the batch from `first` on was logged; 0: there is none.
int64_t OldestOf(const model::Batch& batch, uint64_t first) {
  int64_t oldest = 0;
  for (const model::Block& block : batch.blocks) {
    for (size_t row = 0; row < block.offsets.size(); ++row) {
      if (batch.first + block.offsets[row] < first) continue;
      const int64_t time_us = block.times_us[row];
      if (oldest == 0 || time_us < oldest) oldest = time_us;
    }
  }
  return oldest;
}

// The encoded size of `rows` rows, of which `batches` are the first.
uint64_t BytesOf(const std::vector<StoredBatch>& batches, uint64_t rows) {
  std::string blob;
  double bytes = 0;
  for (const StoredBatch& stored : batches) {
    blob.clear();
    EncodeBatch(stored.batch, blob);
    bytes += static_cast<double>(blob.size());
  }
  const uint64_t measured = batches.back().batch.last + 1 - batches.front().batch.first;
  return static_cast<uint64_t>(bytes * static_cast<double>(rows) / static_cast<double>(measured));
}

}  // namespace

absl::StatusOr<std::vector<Queue>> StoreReader::Queues() {
  std::vector<Waiting> waiting;
  {
    Query query = database_.Select(
        "SELECT delivery.run, kind, delivered_rows, run.rows - delivered_rows FROM delivery "
        "JOIN run ON run.id = delivery.run WHERE complete = 0 AND kind <> 'local' "
        "AND run.rows > delivered_rows ORDER BY delivery.run");
    while (query.Next()) {
      waiting.push_back({query.Integer(0), query.Text(1), query.Unsigned(2), query.Unsigned(3)});
    }
    RETURN_IF_ERROR(query.status());
  }
  std::map<std::string, Queue> queues;
  for (const Waiting& each : waiting) {
    Queue& queue = queues[each.kind];
    queue.kind = each.kind;
    queue.rows += each.rows;
    // A damaged batch has no size and no time. Its delivery reports the damage.
    const auto batches = RunBatches(each.run, each.first, kMeasuredBytes);
    if (!batches.ok() || batches->empty()) continue;
    queue.bytes += BytesOf(*batches, each.rows);
    const int64_t oldest = OldestOf(batches->front().batch, each.first);
    if (queue.oldest_us == 0 || oldest < queue.oldest_us) queue.oldest_us = oldest;
  }
  std::vector<Queue> list;
  for (auto& [kind, queue] : queues) list.push_back(std::move(queue));
  return list;
}

absl::StatusOr<uint64_t> StoreReader::BytesOfRun(int64_t run) {
  ASSIGN_OR_RETURN(
      const int64_t bytes,
      database_.SelectInteger(
          "SELECT (SELECT ifnull(sum(length(data)), 0) FROM run_batch WHERE run = ?1) + "
          "(SELECT ifnull(sum(length(data)), 0) FROM replay_batch WHERE run = ?1) + "
          "(SELECT ifnull(sum(length(data)), 0) FROM stream_batch "
          "WHERE stream IN (SELECT id FROM stream WHERE run = ?1))",
          {run}));
  return static_cast<uint64_t>(bytes);
}

absl::StatusOr<model::Losses> StoreReader::LossesOfAll() {
  Query query = database_.Select(absl::StrCat("SELECT ", LossColumns("total(lost_", ")"),
                                              ", total(refused_items) FROM stream"));
  model::Losses losses;
  if (query.Next()) {
    int column = 0;
    for (const auto& [name, count] : model::kLossCounters) losses.*count = query.Unsigned(column++);
    losses.items = query.Unsigned(column);
  }
  RETURN_IF_ERROR(query.status());
  return losses;
}

}  // namespace ranklog::storage
