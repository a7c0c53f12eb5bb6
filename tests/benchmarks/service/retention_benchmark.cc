// How long a rank waits for a commit while a large store is pruned, compared with a store in which
// nothing is removed. Both are measured in one run, with their ratio at the 50th and the 99th
// percentile.

#include <benchmark/benchmark.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/pipeline/retention_loop.h"
#include "tests/benchmarks/figures.h"
#include "tests/service/storage/builders.h"
#include "tests/support/temp_dir.h"

namespace {

using ranklog::SteadyNow;
using ranklog::pipeline::RetentionLoop;
using ranklog::pipeline::StoreLoop;
using ranklog::storage::Store;
using ranklog::storage::StoreReader;

constexpr uint64_t kRowsOfBatch = 256;
constexpr size_t kWidth = 10;

// A run of 1024 batches has 22 MB of received rows, and 22 MB of rows of the run.
uint64_t BatchesOfRun() { return ranklog::benchmarks::SizeOf<uint64_t>(1024, 64); }

void Must(const absl::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

// Adds a delivered run that ended long ago.
absl::Status AddRun(Store& store, uint64_t number) {
  const std::string job = absl::StrCat("job-", number);
  auto stream = store.Attach(ranklog::testing::SessionOf(0, number, job),
                             ranklog::testing::AssignmentOf(job), 1);
  Must(stream.status());
  Must(store.DefineShape(stream->id, 1, ranklog::testing::Keys(kWidth)));
  Must(store.DefineRunShape(stream->run, 1, ranklog::testing::Keys(kWidth)));
  const uint64_t batches = BatchesOfRun();
  for (uint64_t i = 0; i < batches; ++i) {
    const uint64_t first = i * kRowsOfBatch;
    Must(store.Append(stream->id, ranklog::testing::Dense(first + 1, kRowsOfBatch, 1, kWidth))
             .status());
    Must(store.AppendRunRows(stream->run, ranklog::testing::Dense(first, kRowsOfBatch, 1, kWidth)));
  }
  Must(store.SetAggregated(stream->id, {.through = batches * kRowsOfBatch, .late = 0}));
  Must(store.EndStream(stream->id, ranklog::model::StreamState::kFinished, 0, "", 2));
  Must(store.CloseRun(stream->run, ranklog::model::RunState::kFinished, 0, "", 2));
  ranklog::model::Delivery delivery;
  delivery.run = stream->run;
  delivery.kind = "wandb";
  delivery.delivered_rows = batches * kRowsOfBatch;
  delivery.complete = true;
  delivery.cursor = ranklog::model::Json::object();
  return store.PutDelivery(delivery);
}

struct Waits {
  std::vector<double> ms;
  double At(double share) {
    std::sort(ms.begin(), ms.end());
    return ms[static_cast<size_t>(share * static_cast<double>(ms.size() - 1))];
  }
};

void BM_CommitsDuringPruning(benchmark::State& state) {
  spdlog::set_level(spdlog::level::off);
  const auto runs = static_cast<uint64_t>(state.range(0));
  const int commits = ranklog::benchmarks::SizeOf(1000, 20);
  for (auto _ : state) {
    ranklog::testing::TempDir dir;
    StoreLoop store(*Store::Open(dir.path(), {}), {});
    for (uint64_t run = 1; run <= runs; ++run) {
      Must(store.SubmitAndWait([run](Store& open) { return AddRun(open, run); }));
    }
    const int64_t before = *(*StoreReader::Open(dir.path()))->UsedBytes();
    int64_t stream = 0;
    Must(store.SubmitAndWait([&](Store& open) {
      auto attached = open.Attach(ranklog::testing::SessionOf(0, runs + 1, "live"),
                                  ranklog::testing::AssignmentOf("live"), 1);
      stream = attached->id;
      return open.DefineShape(stream, 1, ranklog::testing::Keys(kWidth));
    }));
    uint64_t next = 1;
    const auto commit = [&](Waits* waits) {
      const absl::Time start = SteadyNow();
      Must(store.SubmitAndWait([&](Store& open) {
        return open.Append(stream, ranklog::testing::Dense(next, 32, 1, kWidth)).status();
      }));
      next += 32;
      waits->ms.push_back(absl::ToDoubleMilliseconds(SteadyNow() - start));
      absl::SleepFor(absl::Milliseconds(5));
    };
    RetentionLoop retention(&store, *StoreReader::Open(dir.path()),
                            {.limits = {.keep_for = absl::Hours(1), .keep_bytes = 0}});
    Waits alone, beside;
    for (int i = 0; i < commits; ++i) commit(&alone);
    const absl::Time start = SteadyNow();
    retention.Start();
    while (retention.counters().removed_bytes < static_cast<uint64_t>(before) * 9 / 10) {
      commit(&beside);
    }
    const double seconds = absl::ToDoubleSeconds(SteadyNow() - start);
    retention.Stop();
    for (int i = 0; i < commits; ++i) commit(&alone);
    state.counters["store_MB"] = static_cast<double>(before) / 1e6;
    state.counters["pruned_MB/s"] = static_cast<double>(before) * 0.9 / 1e6 / seconds;
    state.counters["commits"] = static_cast<double>(beside.ms.size());
    for (const auto& [name, share] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
      state.counters[absl::StrCat(name, "_ms")] = beside.At(share);
      state.counters[absl::StrCat(name, "_alone_ms")] = alone.At(share);
      state.counters[absl::StrCat(name, "_ratio")] = beside.At(share) / alone.At(share);
    }
    state.counters["max_ms"] = beside.At(1);
    state.counters["max_alone_ms"] = alone.At(1);
  }
}
BENCHMARK(BM_CommitsDuringPruning)
    ->ArgName("runs")
    ->Arg(2)
    ->Arg(24)
    ->Iterations(1)
    ->Unit(benchmark::kSecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
