// The speed and memory of ranklog-train's loop, compared with bounds: without communication, in
// Python, without a log, and the computed size of its tensors.
//
// The compared programs take turns of a few seconds, and a ratio is the median over the pairs of
// turns. So other load on the machine slows both. Each benchmark runs once.

#include <benchmark/benchmark.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/benchmarks/figures.h"
#include "tests/benchmarks/trainer/timed_job.h"
#include "tests/support/temp_dir.h"
#include "trainer/model/model.h"

namespace {

using ranklog::benchmarks::AtLeast;
using ranklog::benchmarks::AtMost;
using ranklog::benchmarks::Child;
using ranklog::benchmarks::SizeOf;
using ranklog::benchmarks::TimedJob;
using ranklog::benchmarks::Turn;
using ranklog::testing::TempDir;

constexpr int kRanks = 2;
// DDP rebuilds its buckets after the first step, and the allocator and the caches settle.
const int kWarmUp = SizeOf(4, 1);

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// A model, and turns of about two seconds.
struct Trial {
  std::string model;
  int steps;  // of a turn
  int pairs;  // of turns
};

Trial Tiny() { return {"tiny", SizeOf(16, 1), SizeOf(12, 1)}; }
Trial Small() { return {"small", SizeOf(3, 1), SizeOf(10, 1)}; }

struct Rates {
  double ratio = 0;      // of a's to b's tokens/s
  double cpu_ratio = 0;  // of a's to b's tokens per CPU second, which a busy machine changes less
  double a = 0, b = 0;   // tokens/s
};

// Takes pairs of turns; each program is first in every second pair.
Rates Compare(TimedJob& a, TimedJob& b, const Trial& trial) {
  a.Take(kWarmUp);
  b.Take(kWarmUp);
  std::vector<double> ratios, cpu_ratios, of_a, of_b;
  for (int pair = 0; pair < trial.pairs; ++pair) {
    Turn turn_a, turn_b;
    if (pair % 2 == 0) turn_a = a.Take(trial.steps);
    turn_b = b.Take(trial.steps);
    if (pair % 2 == 1) turn_a = a.Take(trial.steps);
    ratios.push_back(turn_a.tokens_per_second / turn_b.tokens_per_second);
    cpu_ratios.push_back(turn_b.cpu_seconds / turn_a.cpu_seconds);
    of_a.push_back(turn_a.tokens_per_second);
    of_b.push_back(turn_b.tokens_per_second);
  }
  return {Median(ratios), Median(cpu_ratios), Median(of_a), Median(of_b)};
}

// Debian's Python, because its PyTorch uses the same libtorch_cpu.so and the same BLAS as we do.
// So only the loop differs. A wheel has other kernels and another BLAS.
constexpr char kPython[] = "/usr/bin/python3";

bool HasPyTorch() {
  static const bool has =
      std::system((std::string(kPython) + " -c 'import torch' 2>/dev/null").c_str()) == 0;
  return has;
}

// Two ranks with DDP, compared with two ranks that train alone at the same time. Each has a core.
// over_python: compared with two ranks of PyTorch's loop in Python, with its DDP.
void BM_TrainTwoRanks(benchmark::State& state, const Trial& trial, double goal) {
  for (auto _ : state) {
    const std::vector<std::string> command = {TRAINER_RANK, "turns", trial.model};
    TimedJob together(command, kRanks, TimedJob::kTogether);
    TimedJob alone(command, kRanks, TimedJob::kEachAlone);
    const Rates rates = Compare(together, alone, trial);
    AtLeast(state, "of_bound", rates.ratio, goal);
    state.counters["cpu_ratio"] = rates.cpu_ratio;
    state.counters["tokens_per_s"] = rates.a;
    state.counters["bound_tokens_per_s"] = rates.b;
    if (trial.pairs > 1 && HasPyTorch()) {  // not in a short run
      TimedJob python({kPython, TRAINING_RANK_PY, trial.model}, kRanks, TimedJob::kTogether);
      state.counters["over_python"] = Compare(together, python, trial).ratio;
    }
  }
}
// The smaller the model, the more a step waits for the slower rank and for the loopback interface.
BENCHMARK_CAPTURE(BM_TrainTwoRanks, tiny, Tiny(), 0.85)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_TrainTwoRanks, small, Small(), 0.95)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// One rank with one thread, compared with PyTorch's loop in Python. A user who leaves Python must
// not lose speed.
void BM_TrainVersusPython(benchmark::State& state, const Trial& trial) {
  if (!HasPyTorch()) return state.SkipWithError("absent: PyTorch (package python3-torch)");
  for (auto _ : state) {
    TimedJob ours({TRAINER_RANK, "turns", trial.model}, 1, TimedJob::kTogether);
    TimedJob python({kPython, TRAINING_RANK_PY, trial.model}, 1, TimedJob::kTogether);
    const Rates rates = Compare(ours, python, trial);
    AtLeast(state, "ratio", rates.ratio, 1.0);
    state.counters["cpu_ratio"] = rates.cpu_ratio;
    state.counters["tokens_per_s"] = rates.a;
    state.counters["python_tokens_per_s"] = rates.b;
  }
}
BENCHMARK_CAPTURE(BM_TrainVersusPython, tiny, Tiny())->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_TrainVersusPython, small, Small())
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

struct Estimate {
  double value = 0;
  double error = 0;  // the standard error
};

// The median of independent values. Two thirds of repeated medians lie between the values that are
// half of sqrt(n) places below and above the middle, whatever the distribution.
Estimate MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double middle = static_cast<double>(values.size() - 1) / 2,
               places = std::min(std::sqrt(static_cast<double>(values.size())) / 2, middle);
  const double below = values[std::lround(middle - places)],
               above = values[std::lround(middle + places)];
  return {Median(std::move(values)), (above - below) / 2};
}

// The cost of ten metrics per rank and step, in percent of a step's time and of the CPU time of the
// job's processes. The CPU time of other processes is in percent of a core.
struct Cost {
  Estimate step_percent;
  Estimate cpu_percent;
  double service_percent = 0;
};

// The same processes log in every second turn, so that nothing else differs. The turns are short:
// the speed of a machine drifts from second to second, which a pair of short turns does not notice.
// The rows of a step may be sent during the next step. So the first step of a turn is not measured.
// `service` returns the CPU time of the processes that take the rows.
Cost CostOfLogging(TimedJob& job, const std::function<double()>& service) {
  const int steps = SizeOf(3, 1), pairs = SizeOf(80, 1);
  job.Take(kWarmUp, /*log=*/true);
  std::vector<double> step, cpu;
  double served = 0, seconds = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    Turn plain, log;
    for (const bool logs : {pair % 2 == 1, pair % 2 == 0}) {
      job.Take(1, logs);
      const double before = service();
      (logs ? log : plain) = job.Take(steps, logs);
      if (logs) served += service() - before;
    }
    step.push_back(100 * (log.seconds / plain.seconds - 1));
    cpu.push_back(100 * (log.cpu_seconds / plain.cpu_seconds - 1));
    seconds += log.seconds;
  }
  return {MedianOf(std::move(step)), MedianOf(std::move(cpu)), 100 * served / seconds};
}

Cost CostOfRanklog() {
  const TempDir dir, spool("/dev/shm");  // the default place of spools
  const std::string socket = dir.File("d.sock");
  const Child daemon({RANKLOGD, "--state-dir", dir.File("state"), "--listen", "unix:" + socket,
                      "--spool-dir", spool.path(), "--log-level", "warn"},
                     {});
  for (int i = 0; i < 1000 && access(socket.c_str(), F_OK) != 0; ++i) usleep(5000);
  const Cost cost = [&] {
    TimedJob job({TRAINER_RANK, "turns", "tiny"}, kRanks, TimedJob::kTogether,
                 {{"RANKLOG_ADDRESS", "unix:" + socket},
                  {"RANKLOG_SPOOL_DIR", spool.path()},
                  {"RANKLOG_START_DAEMON", "false"},
                  {"RANKLOG_DESTINATIONS", "local"},
                  {"RANKLOG_RUN_ID", "benchmark"},
                  {"RANKLOG_QUIET", "1"},
                  {"WANDB_MODE", ""}});
    return CostOfLogging(job, [&] { return ranklog::benchmarks::ProcessCpuSeconds(daemon.pid()); });
  }();
  kill(daemon.pid(), SIGTERM);
  return cost;
}

// The output of a shell command; empty if it fails.
std::string Output(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  for (int c = 0; pipe != nullptr && (c = fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  return pipe != nullptr && pclose(pipe) == 0 ? output : "";
}

// The same loop in Python with W&B's SDK, offline, so that nothing is sent.
std::optional<Cost> CostOfWandb() {
  // The SDK for the Python that has PyTorch.
  const std::string packages =
      Output("PATH=/usr/bin:$PATH; python=$('" + std::string(WANDB_PYTHON) +
             "') && $python -c 'import sysconfig; "
             "print(sysconfig.get_path(\"purelib\"), end=\"\")'");
  if (packages.empty() || !HasPyTorch()) return std::nullopt;
  const TempDir dir;
  TimedJob job({kPython, TRAINING_RANK_PY, "tiny"}, kRanks, TimedJob::kTogether,
               {{"PYTHONPATH", packages},
                {"WANDB_MODE", "offline"},
                {"WANDB_DIR", dir.path()},
                {"WANDB_SILENT", "true"}});
  return CostOfLogging(job, [&] {
    double seconds = 0;
    for (const auto& rank : job.ranks())
      seconds += ranklog::benchmarks::DescendantsCpuSeconds(rank->pid());
    return seconds;
  });
}

// Users switch off a log that slows the training noticeably. *_error: the standard error of a figure.
void BM_LoggingOverhead(benchmark::State& state) {
  for (auto _ : state) {
    const Cost cost = CostOfRanklog();
    AtMost(state, "step_percent", cost.step_percent.value, 1);
    AtMost(state, "cpu_percent", cost.cpu_percent.value, 1);
    state.counters["step_error"] = cost.step_percent.error;
    state.counters["cpu_error"] = cost.cpu_percent.error;
    state.counters["daemon_percent"] = cost.service_percent;
    if (const std::optional<Cost> wandb = CostOfWandb()) {
      state.counters["wandb_step_percent"] = wandb->step_percent.value;
      state.counters["wandb_step_error"] = wandb->step_percent.error;
      state.counters["wandb_cpu_percent"] = wandb->cpu_percent.value;
      state.counters["wandb_cpu_error"] = wandb->cpu_percent.error;
      state.counters["wandb_service_percent"] = wandb->service_percent;
    } else if (std::getenv("CI") != nullptr) {
      state.SkipWithError("absent: PyTorch (package python3-torch), or W&B's SDK");
    } else {
      std::fprintf(stderr, "absent: PyTorch (package python3-torch), or W&B's SDK\n");
    }
  }
}
BENCHMARK(BM_LoggingOverhead)->Iterations(1)->Unit(benchmark::kMillisecond);

constexpr int kMemorySteps = 3;  // AdamW's moments exist after the first step

// The memory that a rank needs when the backward pass begins, in MiB.
struct Memory {
  double parameters, gradients, optimizer, activations;
  double all() const { return parameters + gradients + optimizer + activations; }
};

// Computes it for trainer/model/model.cc: autograd keeps these float32 values with the math kernels
// of LibTorch 1.13.
Memory Computed(const std::string& model, int64_t batch, int64_t length) {
  const ranklog::trainer::GptShape shape = ranklog::trainer::ShapeOf(model, length, 256);
  const double parameters = static_cast<double>(ranklog::trainer::Gpt(shape, 1).parameter_count());
  // Values per layer and token, in multiples of the width: the input, the outputs of both norms, q,
  // k and v, the output of the attention, the sum after it, and four each before and after GELU. In
  // addition, a weight for each head and earlier token.
  const double layer = 16.0 * shape.width + static_cast<double>(shape.heads * length);
  // After the layers: the input and the output of the last norm; the softmax, and the gradient that
  // is computed from it.
  const double rest = 2.0 * (shape.width + shape.vocabulary);
  const double activations =
      static_cast<double>(batch * length) * (static_cast<double>(shape.layers) * layer + rest);
  const double mib = sizeof(float) / 1048576.0;
  return {parameters * mib, parameters * mib, 2 * parameters * mib, activations * mib};
}

// The peak of the resident set of one of two ranks, in MiB: the total, and without code and the
// memory from before the model.
struct Measured {
  double peak_rss = 0;
  double tensors = 0;
};

Measured MeasureMemory(const std::string& model, std::map<std::string, std::string> environment) {
  TimedJob job({TRAINER_RANK, "turns", model}, kRanks, TimedJob::kTogether, std::move(environment));
  const pid_t rank = job.ranks()[0]->pid();
  const double before = ranklog::benchmarks::MemoryMib(rank, "RssAnon");
  job.Take(kMemorySteps);
  const double peak = ranklog::benchmarks::MemoryMib(rank, "VmHWM");
  return {peak, peak - before - ranklog::benchmarks::MemoryMib(rank, "RssFile")};
}

// The memory of a rank, compared with the memory that it needs. A needless copy of the gradients
// would add an eighth to `small`. For speed, glibc's malloc keeps up to a quarter of the freed
// memory; for the ratio, it is configured to return all of it.
void BM_TrainMemory(benchmark::State& state, const std::string& model) {
  for (auto _ : state) {
    const Memory computed = Computed(model, 8, 128);
    const Measured given_back = MeasureMemory(model, {{"MALLOC_MMAP_THRESHOLD_", "131072"}});
    AtMost(state, "ratio", given_back.tensors / computed.all(), 1.15);
    state.counters["measured_mib"] = given_back.tensors;
    state.counters["computed_mib"] = computed.all();
    state.counters["parameters_mib"] = computed.parameters;
    state.counters["gradients_mib"] = computed.gradients;
    state.counters["adamw_mib"] = computed.optimizer;
    state.counters["activations_mib"] = computed.activations;
    state.counters["peak_rss_mib"] = MeasureMemory(model, {}).peak_rss;
  }
}
BENCHMARK_CAPTURE(BM_TrainMemory, tiny, std::string("tiny"))
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_TrainMemory, small, std::string("small"))
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
