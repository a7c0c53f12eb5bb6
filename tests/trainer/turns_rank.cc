// trainer_rank turns MODEL [gloo|nccl]: a rank of trainer_benchmark.cc and of gpu_trials.py. It
// trains like ranklog-train, in turns: gpt2 with 16 sequences of 1024 tokens, the others with its
// defaults. On a GPU (nccl) it uses bfloat16.
//
// Writes "ready" before the training. Then each line of its input is a turn:
//   STEPS plain   takes STEPS steps
//   STEPS log     the same, and logs ten metrics after each step
// After a turn, it writes "SECONDS CPU_SECONDS": the time and the CPU time of this process. On a GPU
// a step is reported while the next one runs, which would run in another program's turn. So a turn
// has one more step before its time begins, and the GPU is idle at its end.
// It ends at the end of its input.

#include <time.h>
#include <torch/cuda.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ranklog/ranklog.h"
#include "tests/trainer/trainer_rank.h"
#include "trainer/base/malloc_settings.h"
#include "trainer/base/stop_signal.h"
#include "trainer/parallel/placement.h"
#include "trainer/parallel/process_group.h"
#include "trainer/saver.h"
#include "trainer/train.h"

namespace ranklog::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Turns {
 public:
  Turns(Run& run, bool gpu)
      : run_(run),
        gpu_(gpu),
        row_(run.Row({"train/loss", "train/lr", "train/grad_norm", "train/tokens_per_second",
                      "train/tokens", "train/step", "train/epoch", "train/perplexity",
                      "train/seconds", "train/samples"})) {
    std::cout << "ready" << std::endl;
    Begin();
  }

  void AfterStep(const StepReport& report) {
    if (log_) {
      const auto step = static_cast<double>(report.step),
                 tokens = static_cast<double>(report.tokens);
      const std::array<double, 10> values = {report.loss,
                                             report.lr,
                                             report.grad_norm,
                                             report.tokens_per_second,
                                             tokens * step,
                                             step,
                                             report.epoch,
                                             std::exp(report.loss),
                                             tokens / report.tokens_per_second,
                                             step * 8};
      run_.Log(row_, values, report.step);
    }
    if (std::exchange(leads_in_, false)) {
      StartClock();
      return;
    }
    if (--left_ > 0) return;
    const std::chrono::duration<double> took = Clock::now() - began_;
    const double cpu_seconds = CpuSeconds() - cpu_began_;
    if (gpu_) torch::cuda::synchronize();
    std::cout << took.count() << " " << cpu_seconds << std::endl;
    Begin();
  }

 private:
  void Begin() {
    std::string mode;
    if (!(std::cin >> left_ >> mode)) {
      run_.Finish(0);
      std::_Exit(0);  // the other ranks take no more steps either
    }
    log_ = mode == "log";
    leads_in_ = gpu_;
    StartClock();
  }

  void StartClock() {
    began_ = Clock::now();
    cpu_began_ = CpuSeconds();
  }

  Run& run_;
  const bool gpu_;
  const RowHandle row_;
  bool leads_in_ = false;  // the next step is the one before the turn's time
  int64_t left_ = 0;       // remaining steps of this turn
  bool log_ = false;
  Clock::time_point began_;
  double cpu_began_ = 0;
};

std::vector<uint8_t> RandomBytes(size_t count) {
  std::mt19937 random(1);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

}  // namespace

int TurnsRank(const std::vector<std::string>& arguments) {
  const std::string device = arguments.size() > 1 ? arguments[1] : "gloo";
  if (arguments.empty() || (device != "gloo" && device != "nccl")) {
    std::cerr << "Usage: trainer_rank turns MODEL [gloo|nccl]\n";
    return 2;
  }
  KeepFreedMemory();
  const Settings settings = Settings::FromEnvironment();
  auto rendezvous =
      Rendezvous::FromEnvironment(settings.rank.value_or(0), settings.world_size.value_or(1));
  const Comm comm = device == "nccl" ? Comm::kNccl : Comm::kGloo;
  const auto placement = ChoosePlacement(comm, settings.local_rank.value_or(0), FindGpus());
  if (!placement.ok()) {
    std::cerr << "trainer_rank: " << placement.status() << "\n";
    return 1;
  }
  auto group = ProcessGroup::Join(*rendezvous, {.placement = *placement});
  if (!group.ok()) {
    std::cerr << "trainer_rank: " << group.status() << "\n";
    return 1;
  }
  Options options;
  options.model = arguments[0];
  options.steps = int64_t{1} << 40;  // the driver ends it
  options.lr = options.min_lr = 1e-3;
  options.log_every = 0;
  options.val_every = 0;
  options.save_every = 0;
  options.bfloat16 = placement->nccl;
  Corpus corpus;
  if (options.model == "gpt2") {
    options.seq_len = 1024;
    options.batch_size = 16;
    options.pad_vocabulary = 64;
  }
  corpus.source = "random bytes";
  corpus.train = Tokens(RandomBytes(1 << 20));
  const Plan plan = MakePlan(options, corpus, group->world_size());
  auto saver = Saver::Open(options, plan, /*facts=*/{}, *group);
  if (!saver.ok()) {
    std::cerr << "trainer_rank: " << saver.status() << "\n";
    return 1;
  }
  const StopSignal stop_signal;
  Run run = Init(settings);
  Turns turns(run, placement->nccl);
  Train(options, corpus, *group, run, *saver, stop_signal,
        [&](const StepReport& report) { turns.AfterStep(report); });
  return 0;
}

}  // namespace ranklog::trainer
