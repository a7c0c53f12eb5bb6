// trainer_rank training DIR example|other|drift [stop|resume]: one rank of train_reference_test.cc.
// Trains, saves its checkpoints in DIR/out, and appends a line for each step to DIR/steps.RANK:
//
//   loss gradient-norm lr tokens epoch val-loss-or-0 all-reduces-so-far item-calls-so-far
//
// The calls of item() are those on floating-point tensors, each of which would wait for a GPU.
//
// After its first step, a rank sets its random state to the seed 100 + RANK.
// drift: rank 1 doubles its averaged gradients. An error is written to DIR/error.RANK.
// stop: a signal stops the training after step kStopStep. resume: it continues from there.

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "tests/trainer/train_example.h"
#include "tests/trainer/trainer_rank.h"
#include "trainer/train.h"

namespace ranklog::trainer {
namespace {

std::atomic<int> all_reduces = 0;
std::atomic<int> item_calls = 0;
std::atomic<bool> drifts = false;

std::unique_ptr<at::ObserverContext> OnFunction(const at::RecordFunction& function) {
  if (std::strstr(function.name(), ":all_reduce") != nullptr) ++all_reduces;
  if (std::strcmp(function.name(), "aten::_local_scalar_dense") == 0 &&
      function.inputs()[0].toTensor().is_floating_point()) {
    ++item_calls;
  }
  if (std::strcmp(function.name(), "aten::norm") == 0 && drifts.exchange(false)) {
    function.inputs()[0].toTensor().mul_(2);
  }
  return nullptr;
}

void TrainAs(ProcessGroup& group, const std::string& directory, const std::string& kind,
             const std::string& part) {
  Options options = kind == "other" ? OtherOptions(directory) : ExampleOptions(directory);
  options.resume = part == "resume";
  const Corpus corpus = ExampleCorpus();
  const Plan plan = MakePlan(options, corpus, group.world_size());
  absl::StatusOr<Saver> saver = Saver::Open(
      options, plan, FingerprintOf(options, Settings(), plan, corpus, group.world_size()), group);
  if (!saver.ok()) throw std::runtime_error(saver.status().ToString());
  at::addGlobalCallback(at::RecordFunctionCallback(OnFunction)
                            .needsInputs(true)
                            .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  drifts = kind == "drift" && group.rank() == 1;
  std::ofstream steps(directory + "/steps." + std::to_string(group.rank()), std::ios::app);
  steps.precision(std::numeric_limits<double>::max_digits10);
  Run no_run;  // drops all rows
  const StopSignal stop;
  Train(options, corpus, group, no_run, *saver, stop, [&](const StepReport& step) {
    if (step.step == 1) at::manual_seed(100 + group.rank());
    steps << step.loss << " " << step.grad_norm << " " << step.lr << " " << step.tokens << " "
          << step.epoch << " " << step.val_loss.value_or(0) << " " << all_reduces << " "
          << item_calls << "\n";
    // The loop notices the signal at the end of the next step.
    if (part == "stop" && step.step == kStopStep - 1) raise(SIGTERM);
  });
}

}  // namespace

int TrainRank(const std::vector<std::string>& arguments) {
  const std::string& directory = arguments.at(0);
  const int rank = std::atoi(std::getenv("RANK"));
  auto rendezvous = Rendezvous::FromEnvironment(rank, std::atoi(std::getenv("WORLD_SIZE")));
  auto group = ProcessGroup::Join(*rendezvous);
  if (!group.ok()) {
    std::cerr << group.status() << "\n";
    return 1;
  }
  try {
    TrainAs(*group, directory, arguments.at(1), arguments.size() > 2 ? arguments[2] : "");
  } catch (const std::exception& error) {
    std::ofstream(directory + "/error." + std::to_string(rank)) << error.what();
    std::_Exit(0);
  }
  group->Leave();
  return 0;
}

}  // namespace ranklog::trainer
