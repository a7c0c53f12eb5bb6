// The CPU time of a tick: a reading of the node, and the sample of a run with 8 ranks, on a node
// with 300 processes.

#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "service/base/clock.h"
#include "service/sample/node_sampler.h"
#include "service/sample/run_sampler.h"
#include "tests/benchmarks/figures.h"

namespace {

using ranklog::SteadyNow;
using ranklog::benchmarks::AtMost;
using ranklog::benchmarks::SizeOf;
using ranklog::sample::NodeSampler;
using ranklog::sample::RunSampler;

constexpr size_t kProcesses = 300;
constexpr int kRanks = 8;
constexpr int kWorkers = 8;  // of each rank, as for loading data
constexpr double kInterval = 15;

[[noreturn]] void SleepForEver() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) pause();
}

// Ranks with workers, and other processes, all of which sleep. Ended by the destructor.
class Processes {
 public:
  explicit Processes(size_t others) {
    for (int i = 0; i < kRanks; ++i) {
      Fork([] {
        for (int worker = 0; worker < kWorkers; ++worker) {
          if (fork() == 0) SleepForEver();
        }
      });
    }
    ranks_ = pids_;
    for (size_t i = 0; i < others; ++i) Fork([] {});
  }
  ~Processes() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }
  const std::vector<pid_t>& ranks() const { return ranks_; }

 private:
  template <typename Body>
  void Fork(const Body& body) {
    const pid_t pid = fork();
    if (pid < 0) {
      perror("fork");
      std::abort();
    }
    if (pid == 0) {
      body();
      SleepForEver();
    }
    pids_.push_back(pid);
  }

  std::vector<pid_t> pids_;
  std::vector<pid_t> ranks_;
};

// Of all threads of this process, the GPUs' thread among them.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The goal is 0.05 % of a core, because a tick delays a rank that shares the core.
void BM_SampleTick(benchmark::State& state) {
  NodeSampler node({});
  const size_t before = node.Read(SteadyNow()).processes.processes().size();
  const size_t own = kRanks * (1 + kWorkers);
  const Processes processes(before + own < kProcesses ? kProcesses - before - own : 0);
  RunSampler run;
  run.Sample(node.Read(SteadyNow()), processes.ranks());
  const int ticks = SizeOf(100, 3);
  size_t values = 0;
  size_t tree_processes = 0;
  for (auto _ : state) {
    double used = 0;
    for (int i = 0; i < ticks; ++i) {
      usleep(20'000);  // so that others use the caches meanwhile
      const double begin = CpuSeconds();
      const auto reading = node.Read(SteadyNow());
      values = run.Sample(reading, processes.ranks()).size();
      used += CpuSeconds() - begin;
      tree_processes = reading.processes.Trees(processes.ranks()).size();
    }
    const double tick = used / ticks;
    state.SetIterationTime(tick);
    state.counters["values"] = static_cast<double>(values);
    state.counters["tree_processes"] = static_cast<double>(tree_processes);
    AtMost(state, "percent_of_core", 100 * tick / kInterval, 0.05);
  }
}
BENCHMARK(BM_SampleTick)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
