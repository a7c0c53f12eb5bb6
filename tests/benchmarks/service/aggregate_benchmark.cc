// Values per second through the aggregator: how much of a core the statistics over ranks cost.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "service/aggregate/run_aggregator.h"

namespace ranklog::aggregate {
namespace {

constexpr uint64_t kRowsPerBatch = 100;  // per rank: 1000 rows/s, flushed every 100 ms

model::Batch BatchFrom(uint64_t first, size_t width) {
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
      block.values.push_back(static_cast<double>((first + row) * 31 + i * 7));
    }
  }
  return batch;
}

// Parameters: ranks, metrics per row, statistics on or off. An item is one value of a rank.
void Aggregate(benchmark::State& state) {
  const int64_t ranks = state.range(0);
  const size_t width = static_cast<size_t>(state.range(1));
  RunAggregator::Options options;
  options.statistics = state.range(2) != 0;
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
  for (auto _ : state) {
    state.PauseTiming();
    const model::Batch batch = BatchFrom(next, width);
    state.ResumeTiming();
    next += kRowsPerBatch;
    for (int64_t rank = 0; rank < ranks; ++rank) aggregator.AddRows(rank + 1, batch);
    benchmark::DoNotOptimize(aggregator.Advance(absl::UnixEpoch()));
  }
  state.SetItemsProcessed(state.iterations() * ranks * static_cast<int64_t>(kRowsPerBatch * width));
}
BENCHMARK(Aggregate)
    ->ArgNames({"ranks", "width", "statistics"})
    ->Args({8, 10, 1})
    ->Args({8, 10, 0})
    ->Args({2, 10, 1})
    ->Args({8, 1000, 1})
    ->UseRealTime();

}  // namespace
}  // namespace ranklog::aggregate

BENCHMARK_MAIN();
