// The cost of Log() in a training step, compared with writing the same bytes into the same kind of
// memory. Each `ratio` is relative to the reference measured in the same run.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sched.h>
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

#include "client/ring/ticks.h"
#include "ranklog/ranklog.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/benchmarks/figures.h"

namespace {

using ranklog::HandleValue;
using ranklog::Metric;
using ranklog::benchmarks::AtMost;
using ranklog::benchmarks::SizeOf;

using ranklog::v1::RowRecord;
using ranklog::v1::SpoolHeader;
using Clock = std::chrono::steady_clock;

constexpr size_t kRing = 8 << 20;

// A run whose ring the benchmark empties, as a sender would with a daemon that answers at once. No
// daemon answers here, so the sender sleeps.
class Rank {
 public:
  explicit Rank(size_t values) {
    char name[] = "/dev/shm/rl-bench-XXXXXX";
    dir_ = mkdtemp(name);
    Start();
    const int fd = open(std::filesystem::directory_iterator(dir_)->path().c_str(), O_RDWR);
    header_ = static_cast<SpoolHeader*>(
        mmap(nullptr, sizeof(SpoolHeader), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
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
    munmap(header_, sizeof(SpoolHeader));
    run_ = ranklog::Run();
    std::filesystem::remove_all(dir_);
  }

  void Start() {
    ranklog::Settings settings;
    settings.address = "unix:" + dir_ + "/sock";
    settings.spool_dir = dir_;
    settings.start_daemon = false;
    settings.flush_interval = std::chrono::seconds(60);
    run_ = ranklog::Init(settings);
  }

  void End() { run_ = ranklog::Run(); }
  void EmptyRing() { header_->tail.store(header_->head.load()); }
  const std::vector<double>& numbers() const { return numbers_; }
  const std::vector<Metric>& metrics() const { return metrics_; }
  bool LogKeys(int64_t step) { return run_.Log(metrics_, step); }
  bool LogHandles(int64_t step) { return run_.Log(handles_, step); }
  bool LogRow(int64_t step) { return run_.Log(row_, numbers_, step); }

 private:
  std::string dir_;
  SpoolHeader* header_;
  ranklog::Run run_;
  std::vector<std::string> keys_;
  std::vector<Metric> metrics_;
  std::vector<HandleValue> handles_;
  std::vector<double> numbers_;
  ranklog::RowHandle row_;
};

// What any ring must do for a row: check the room, write the record with its number, step and time,
// and publish it.
class BareRing {
 public:
  explicit BareRing(size_t values)
      : values_(values),
        bytes_(sizeof(RowRecord) + 8 * values),
        memory_(static_cast<char*>(mmap(nullptr, kRing, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))) {}
  ~BareRing() { munmap(memory_, kRing); }

  void Write(const std::vector<double>& values, int64_t step) {
    if (position_ + bytes_ > kRing) position_ = 0;
    if (head_.load(std::memory_order_relaxed) + bytes_ - tail_.load(std::memory_order_acquire) >
        kRing) {
      return;
    }
    const RowRecord row = {{static_cast<uint32_t>(bytes_), ranklog::v1::RecordKind::kRow, 0},
                           1,
                           static_cast<uint32_t>(values_),
                           ++rows_,
                           step,
                           ranklog::internal::ReadTicks(steady_),
                           0,
                           0};
    std::memcpy(memory_ + position_, &row, sizeof row);
    std::memcpy(memory_ + position_ + sizeof row, values.data(), 8 * values_);
    position_ += bytes_;
    head_.store(head_.load(std::memory_order_relaxed) + bytes_, std::memory_order_release);
  }
  void CopyValues(const std::vector<double>& values) {
    std::memcpy(NextValues(), values.data(), 8 * values_);
  }
  // Reads the values where a row of strings has them: beside the keys.
  void GatherValues(const std::vector<Metric>& row) {
    double* const values = NextValues();
    for (size_t i = 0; i < values_; ++i) values[i] = row[i].number;
  }
  void Empty() { tail_.store(head_.load()); }

 private:
  double* NextValues() {
    if (position_ + 8 * values_ > kRing) position_ = 0;
    char* const place = memory_ + position_;
    position_ += 8 * values_;
    return reinterpret_cast<double*>(place);
  }

  const size_t values_;
  const size_t bytes_;
  const bool steady_ = ranklog::internal::HasSteadyCounter();
  char* const memory_;
  size_t position_ = 0;
  uint64_t rows_ = 0;
  std::atomic<uint64_t> head_ = 0;
  std::atomic<uint64_t> tail_ = 0;
};

template <typename Call>
double NsPerCall(int calls, const Call& call) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls;
}

double Percentile(std::vector<double>* values, double part) {
  const auto at = static_cast<size_t>(part * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + static_cast<long>(at), values->end());
  return (*values)[at];
}

// Measures Log() and its reference in turns, so that both see the same state of the machine.
// Compares the medians.
template <bool (Rank::*kLog)(int64_t)>
void BM_LogTen(benchmark::State& state) {
  constexpr int kCalls = 1024;
  Rank rank(10);
  BareRing bare(10);
  int64_t step = 0, refused = 0;
  std::vector<double> log_ns, bare_ns;
  for (auto _ : state) {
    rank.EmptyRing();
    bare.Empty();
    log_ns.push_back(NsPerCall(kCalls, [&] { refused += !(rank.*kLog)(++step); }));
    bare_ns.push_back(NsPerCall(kCalls, [&] {
      bare.Write(rank.numbers(), ++step);
      benchmark::ClobberMemory();
    }));
  }
  if (refused > 0) state.SkipWithError("rows were refused");
  const double log = Percentile(&log_ns, 0.5), reference = Percentile(&bare_ns, 0.5);
  AtMost(state, "ratio", log / reference, 2.5);
  state.counters["log_ns"] = log;
  state.counters["bare_ns"] = reference;
}

// The same for a wide row, whose cost is its values and keys. With `kGather`, the reference reads
// the values where the caller has them, beside the keys. Otherwise it is one memcpy of adjacent
// doubles. A row of strings can never reach that; ratio_to_memcpy shows the distance.
template <bool (Rank::*kLog)(int64_t), bool kGather>
void BM_LogThousand(benchmark::State& state) {
  constexpr int kCalls = 64;
  Rank rank(1000);
  BareRing bare(1000);
  int64_t step = 0, refused = 0;
  std::vector<double> log_ns, gather_ns, memcpy_ns;
  for (auto _ : state) {
    rank.EmptyRing();
    log_ns.push_back(NsPerCall(kCalls, [&] { refused += !(rank.*kLog)(++step); }));
    gather_ns.push_back(NsPerCall(kCalls, [&] {
      bare.GatherValues(rank.metrics());
      benchmark::ClobberMemory();
    }));
    memcpy_ns.push_back(NsPerCall(kCalls, [&] {
      bare.CopyValues(rank.numbers());
      benchmark::ClobberMemory();
    }));
  }
  if (refused > 0) state.SkipWithError("rows were refused");
  const double log = Percentile(&log_ns, 0.5), copy = Percentile(&memcpy_ns, 0.5);
  const double reference = kGather ? Percentile(&gather_ns, 0.5) : copy;
  AtMost(state, "ratio", log / reference, 3);
  state.counters["log_ns"] = log;
  state.counters["reference_ns"] = reference;
  state.counters["ratio_to_memcpy"] = log / copy;
}

void PinThisThread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cpu = sched_getcpu();
  CPU_SET(static_cast<unsigned>(cpu < 0 ? 0 : cpu), &set);
  sched_setaffinity(0, sizeof set, &set);
}

// One call every half millisecond, as in a training step, compared with the same loop and an empty
// call. They take turns of half a second, so that other load affects both.
void BM_LogPacedP999(benchmark::State& state) {
  Rank rank(10);  // its sender is not pinned
  rank.LogKeys(0);
  PinThisThread();
  std::vector<double> log_ns, empty_ns;
  int64_t step = 0;
  auto next = Clock::now();
  const auto measure = [](const auto& call) {
    const auto start = Clock::now();
    call();
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  for (auto _ : state) {
    next += std::chrono::microseconds(500);
    while (Clock::now() < next) {
    }
    ++step;
    if (step / 1000 % 2 == 0) {
      log_ns.push_back(measure([&] { rank.LogKeys(step); }));
    } else {
      empty_ns.push_back(measure([&] { benchmark::ClobberMemory(); }));
    }
    if (step % 1000 == 0) rank.EmptyRing();
  }
  const double log = Percentile(&log_ns, 0.999), empty = Percentile(&empty_ns, 0.999);
  AtMost(state, "us", (log - empty) / 1000, 1);
  state.counters["log_p50_ns"] = Percentile(&log_ns, 0.5);
  state.counters["log_p99_ns"] = Percentile(&log_ns, 0.99);
  state.counters["log_p999_ns"] = log;
  state.counters["empty_p99_ns"] = Percentile(&empty_ns, 0.99);
  state.counters["empty_p999_ns"] = empty;
}

// The slowest Init() of one process without a daemon. Each run ends before the next begins.
void BM_InitRepeatedly(benchmark::State& state) {
  Rank rank(1);
  std::vector<double> ms;
  for (auto _ : state) {
    rank.End();
    ms.push_back(NsPerCall(1, [&] { rank.Start(); }) * 1e-6);
  }
  AtMost(state, "slowest_ms", *std::max_element(ms.begin(), ms.end()), 10);
  state.counters["median_ms"] = Percentile(&ms, 0.5);
}

BENCHMARK(BM_LogTen<&Rank::LogKeys>)->Name("BM_LogTenKeys")->Iterations(SizeOf(2000, 20));
BENCHMARK(BM_LogTen<&Rank::LogHandles>)->Name("BM_LogTenHandles")->Iterations(SizeOf(2000, 20));
BENCHMARK(BM_LogTen<&Rank::LogRow>)->Name("BM_LogTenByRow")->Iterations(SizeOf(2000, 20));
BENCHMARK(BM_LogThousand<&Rank::LogKeys, true>)
    ->Name("BM_LogThousandKeys")
    ->Iterations(SizeOf(1000, 20));
BENCHMARK(BM_LogThousand<&Rank::LogHandles, true>)
    ->Name("BM_LogThousandHandles")
    ->Iterations(SizeOf(1000, 20));
BENCHMARK(BM_LogThousand<&Rank::LogRow, false>)
    ->Name("BM_LogThousandByRow")
    ->Iterations(SizeOf(1000, 20));
BENCHMARK(BM_LogPacedP999)->Iterations(SizeOf(40'000, 4'000))->UseRealTime();
BENCHMARK(BM_InitRepeatedly)->Iterations(SizeOf(30, 3))->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
