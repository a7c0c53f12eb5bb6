// The cost of Log() in a training step, against the bare writing of the same bytes into the same
// kind of memory. Counters named `ratio` are to the reference measured in the same run.

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"

namespace {

using ranklog::HandleValue;
using ranklog::Metric;

constexpr size_t kRing = 8 << 20;
constexpr size_t kRowHeader = 48;  // of a row in the ring

// A daemon that takes all at once: the ring is emptied by hand between stretches of rows, so that
// only Log() is measured. Without it the sender, which nobody answers, would let the ring fill up.
class Rank {
 public:
  explicit Rank(size_t values) : values_(values) {
    char name[] = "/dev/shm/rl-bench-XXXXXX";
    dir_ = mkdtemp(name);
    Start();
    for (size_t i = 0; i < values; ++i) {
      keys_.push_back((i % 2 == 0 ? "train/metric_" : "grad/norm_") + std::to_string(i));
    }
    for (size_t i = 0; i < values; ++i) {
      metrics_.emplace_back(keys_[i], static_cast<double>(i));
      handles_.push_back({run_.MetricKey(keys_[i]), static_cast<double>(i)});
      numbers_.push_back(static_cast<double>(i));
    }
    std::vector<std::string_view> keys(keys_.begin(), keys_.end());
    row_ = run_.Row(keys);
  }
  ~Rank() {
    run_ = ranklog::Run();
    std::filesystem::remove_all(dir_);
  }

  // A fresh ring, whose shape is known, with room for this many rows before it is full.
  int64_t Start() {
    run_ = ranklog::Run();
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      std::filesystem::remove(entry.path());
    }
    ranklog::Settings settings;
    settings.address = "unix:" + dir_ + "/sock";
    settings.spool_dir = dir_;
    settings.spool_bytes = kRing;
    settings.start_daemon = false;
    settings.flush_interval = std::chrono::seconds(60);
    run_ = ranklog::Init(settings);
    return static_cast<int64_t>((kRing - 64 * values_ - 4096) / (kRowHeader + 8 * values_)) - 2;
  }

  bool LogKeys(int64_t step) { return run_.Log(std::span<const Metric>(metrics_), step); }
  bool LogHandles(int64_t step) { return run_.Log(std::span<const HandleValue>(handles_), step); }
  bool LogRow(int64_t step) { return run_.Log(row_, numbers_, step); }

 private:
  const size_t values_;
  std::string dir_;
  ranklog::Run run_;
  std::vector<std::string> keys_;
  std::vector<Metric> metrics_;
  std::vector<HandleValue> handles_;
  std::vector<double> numbers_;
  ranklog::RowHandle row_;
};

// What any ring has to do for a row: write its bytes, and publish them.
class BareRing {
 public:
  explicit BareRing(size_t values) : bytes_(kRowHeader + 8 * values), row_(bytes_, 'x') {
    memory_ = static_cast<char*>(mmap(nullptr, kRing, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  }
  ~BareRing() { munmap(memory_, kRing); }

  void Write() {
    if (position_ + bytes_ > kRing) position_ = 0;
    std::memcpy(memory_ + position_, row_.data(), bytes_);
    position_ += bytes_;
    head_.store(position_, std::memory_order_release);
  }

 private:
  const size_t bytes_;
  const std::string row_;
  char* memory_;
  size_t position_ = 0;
  std::atomic<size_t> head_ = 0;
};

void BM_BareRingWrite(benchmark::State& state) {
  BareRing ring(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    ring.Write();
    benchmark::ClobberMemory();
  }
}

void BM_CopyOfValues(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<double> values(count, 1.5);
  auto* const memory = static_cast<char*>(mmap(nullptr, kRing, PROT_READ | PROT_WRITE,
                                               MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  size_t position = 0;
  for (auto _ : state) {
    if (position + 8 * count > kRing) position = 0;
    std::memcpy(memory + position, values.data(), 8 * count);
    position += 8 * count;
    benchmark::ClobberMemory();
  }
  munmap(memory, kRing);
}

template <bool (Rank::*kLog)(int64_t)>
void BM_Log(benchmark::State& state) {
  Rank rank(static_cast<size_t>(state.range(0)));
  int64_t left = 0, step = 0, refused = 0;
  for (auto _ : state) {
    if (left-- == 0) {
      state.PauseTiming();
      left = rank.Start();
      refused += !(rank.*kLog)(0);  // the shape's first row
      step = 0;
      state.ResumeTiming();
    }
    refused += !(rank.*kLog)(++step);
  }
  if (refused > 0) state.SkipWithError("rows were refused");
}

double Percentile(std::vector<double>* values, double part) {
  const auto at = static_cast<size_t>(part * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + static_cast<long>(at), values->end());
  return (*values)[at];
}

// One call in every millisecond, as a training step would, next to an empty call at the same pace.
void BM_PacedP999(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  Rank rank(10);
  rank.Start();
  rank.LogKeys(0);
  std::vector<double> log_ns, empty_ns;
  int64_t step = 0;
  auto next = Clock::now();
  const auto measure = [](const auto& call) {
    const auto start = Clock::now();
    call();
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  for (auto _ : state) {
    next += std::chrono::milliseconds(1);
    while (Clock::now() < next) {
    }
    ++step;
    log_ns.push_back(measure([&] { rank.LogKeys(step); }));
    empty_ns.push_back(measure([&] { benchmark::ClobberMemory(); }));
  }
  state.counters["log_p50_ns"] = Percentile(&log_ns, 0.5);
  state.counters["log_p999_ns"] = Percentile(&log_ns, 0.999);
  state.counters["empty_p999_ns"] = Percentile(&empty_ns, 0.999);
}

void BM_InitWithoutADaemon(benchmark::State& state) {
  Rank rank(1);
  for (auto _ : state) rank.Start();
}

BENCHMARK(BM_BareRingWrite)->Arg(10)->Arg(1000);
BENCHMARK(BM_CopyOfValues)->Arg(1000);
BENCHMARK(BM_Log<&Rank::LogKeys>)->Name("BM_LogKeys")->Arg(10)->Arg(1000);
BENCHMARK(BM_Log<&Rank::LogHandles>)->Name("BM_LogHandles")->Arg(10)->Arg(1000);
BENCHMARK(BM_Log<&Rank::LogRow>)->Name("BM_LogRow")->Arg(10)->Arg(1000);
BENCHMARK(BM_PacedP999)->Iterations(5000)->UseRealTime();
BENCHMARK(BM_InitWithoutADaemon)->Iterations(50)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
