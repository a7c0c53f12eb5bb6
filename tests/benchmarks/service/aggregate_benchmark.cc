// Values per second through the aggregator, and bytes per row of the run: the cost of the
// statistics over ranks.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "service/aggregate/run_aggregator.h"
#include "service/storage/rows/batch_codec.h"

namespace ranklog::aggregate {
namespace {

constexpr uint64_t kRowsPerBatch = 100;  // per rank: 1000 rows/s, flushed every 100 ms

// The first `differ` of the row's metrics are different on each rank.
model::Batch BatchFrom(uint64_t first, size_t width, size_t differ, int64_t rank) {
  model::Batch batch;
  batch.first = first;
  batch.last = first + kRowsPerBatch - 1;
  model::Block& block = batch.blocks.emplace_back();
  block.shape = 1;
  block.commits = true;
  for (uint64_t row = 0; row < kRowsPerBatch; ++row) {
    block.offsets.push_back(static_cast<uint32_t>(row));
    block.steps.push_back(static_cast<int64_t>(first + row));
    block.times_us.push_back(static_cast<int64_t>(first + row));
    for (size_t i = 0; i < width; ++i) {
      const int64_t own = i < differ ? rank : 0;
      block.values.push_back(static_cast<double>((first + row) * 31 + i * 7) +
                             static_cast<double>(own));
    }
  }
  return batch;
}

size_t StoredBytes(const Aggregated& result) {
  size_t bytes = 0;
  std::string blob;
  for (const model::Batch& batch : result.batches) {
    storage::EncodeBatch(batch, blob);
    bytes += blob.size();
  }
  return bytes;
}

// Parameters: ranks, metrics per row, how many of these differ between ranks, statistics on or off.
// An item is one value of a rank.
void BM_Aggregate(benchmark::State& state) {
  const int64_t ranks = state.range(0);
  const size_t width = static_cast<size_t>(state.range(1));
  RunAggregator::Options options;
  const size_t differ = static_cast<size_t>(state.range(2));
  if (state.range(3) == 0) options.statistics = model::RankStatistics({"none"});
  RunAggregator aggregator(model::Run(), {{}}, options);
  std::vector<std::string> keys;
  for (size_t i = 0; i < width; ++i) keys.push_back("metric/" + std::to_string(i));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    model::Stream stream;
    stream.id = rank + 1;
    stream.key.rank = static_cast<uint32_t>(rank);
    stream.primary = rank == 0;
    aggregator.AddStream(stream);
    aggregator.DefineShape(stream.id, 1, keys);
  }
  uint64_t next = 1;
  size_t bytes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<model::Batch> batches;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      batches.push_back(BatchFrom(next, width, differ, rank));
    }
    state.ResumeTiming();
    next += kRowsPerBatch;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      aggregator.AddRows(rank + 1, batches[static_cast<size_t>(rank)]);
    }
    const Aggregated result = aggregator.Advance(absl::UnixEpoch());
    state.PauseTiming();
    bytes += StoredBytes(result);
    state.ResumeTiming();
  }
  state.counters["row_bytes"] = static_cast<double>(bytes) / static_cast<double>(next - 1);
  state.SetItemsProcessed(state.iterations() * ranks * static_cast<int64_t>(kRowsPerBatch * width));
}
BENCHMARK(BM_Aggregate)
    ->ArgNames({"ranks", "width", "differ", "statistics"})
    ->Args({8, 10, 10, 1})
    ->Args({8, 10, 3, 1})
    ->Args({8, 10, 0, 1})
    ->Args({8, 10, 3, 0})
    ->Args({2, 10, 10, 1})
    ->Args({8, 1000, 1000, 1})
    ->UseRealTime();

}  // namespace
}  // namespace ranklog::aggregate

BENCHMARK_MAIN();
