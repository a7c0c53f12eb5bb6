// Values per second from a batch to history lines as in a post, with ten values per row. The
// reference makes the same lines with nlohmann::json in the same run: one JSON value per row, and
// one dump for the enclosing string.

#include <benchmark/benchmark.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/deliver/wandb/history/history.h"
#include "tests/benchmarks/figures.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr size_t kWidth = 10;
constexpr uint64_t kRows = 10000;

std::vector<std::vector<std::string>> Shapes() {
  std::vector<std::string> keys;
  for (size_t i = 0; i < kWidth; ++i) keys.push_back(absl::StrCat("train/metric_", i));
  return {{}, keys};
}

model::Batch Rows() {
  model::Batch batch;
  batch.first = 0;
  batch.last = kRows - 1;
  model::Block& block = batch.blocks.emplace_back();
  block.shape = 1;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> values(0, 10);
  for (uint64_t i = 0; i < kRows; ++i) {
    block.offsets.push_back(static_cast<uint32_t>(i));
    block.steps.push_back(static_cast<int64_t>(i));
    block.times_us.push_back(1'767'322'800'000'000 + static_cast<int64_t>(i) * 1000);
    for (size_t v = 0; v < kWidth; ++v) block.values.push_back(values(random));
  }
  return batch;
}

std::string WithNlohmann(const model::Batch& batch, const std::vector<std::string>& keys) {
  const model::Block& block = batch.blocks[0];
  nlohmann::ordered_json content = nlohmann::ordered_json::array();
  for (size_t row = 0; row < block.rows(); ++row) {
    nlohmann::ordered_json line;
    for (size_t i = 0; i < kWidth; ++i) line[keys[i]] = block.values[row * kWidth + i];
    line["_timestamp"] = static_cast<double>(block.times_us[row]) / 1e6;
    line["_runtime"] = static_cast<double>(block.times_us[row] - block.times_us[0]) / 1e6;
    line["_step"] = block.steps[row];
    content.push_back(line.dump());
  }
  return content.dump();
}

double Seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

void BM_HistoryLines(benchmark::State& state) {
  const std::vector<std::vector<std::string>> shapes = Shapes();
  const model::Batch batch = Rows();
  double ours = 0, theirs = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    aggregate::MetricTable table;
    model::Run run;
    run.started_us = batch.blocks[0].times_us[0];
    History history(&table, RunClock(run, {}, 0), 1 << 20);
    HistoryLines lines;
    history.Write(batch, shapes, kRows, SIZE_MAX, {}, &lines);
    benchmark::DoNotOptimize(lines.content.data());
    const auto middle = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(WithNlohmann(batch, shapes[1]).data());
    ours += Seconds(middle - begin);
    theirs += Seconds(std::chrono::steady_clock::now() - middle);
  }
  const double values = static_cast<double>(state.iterations()) * kRows * kWidth;
  // Includes the step synchronisation and the summary.
  benchmarks::AtLeast(state, "ratio", theirs / ours, 3);
  state.counters["Mvalues_per_s"] = values / ours / 1e6;
  state.counters["nlohmann_Mvalues_per_s"] = values / theirs / 1e6;
}
BENCHMARK(BM_HistoryLines)->Unit(benchmark::kMillisecond)->UseRealTime();

// Only the formatting of numbers.
void BM_FormatRows(benchmark::State& state) {
  const std::vector<std::string> keys = Shapes()[1];
  const model::Batch batch = Rows();
  const RowFormat format(keys, {});
  double seconds = 0, reference = 0;
  std::string out, copy;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    out.clear();
    for (uint64_t row = 0; row < kRows; ++row)
      format.Append(batch.blocks[0].values.data() + row * kWidth, &out);
    const auto middle = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(WithNlohmann(batch, keys).data());
    seconds += Seconds(middle - begin);
    reference += Seconds(std::chrono::steady_clock::now() - middle);
  }
  benchmarks::AtLeast(state, "ratio", reference / seconds, 5);
  state.counters["Mvalues_per_s"] =
      static_cast<double>(state.iterations()) * kRows * kWidth / seconds / 1e6;
}
BENCHMARK(BM_FormatRows)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace ranklog::deliver::wandb

BENCHMARK_MAIN();
