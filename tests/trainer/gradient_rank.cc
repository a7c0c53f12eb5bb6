// trainer_rank gradients DIR [gloo|nccl]: one rank of ddp_test.cc. Runs the example's steps, and
// writes to DIR:
//
//   synced.STEP.RANK      its gradients
//   local.STEP.RANK       its gradients after the step's first micro-batch
//   overlap.STEP.RANK     the all-reduces begun before the gradient of the first layer existed, and
//                         those of the whole backward pass
//   validation.STEP.RANK  the mean loss over ValidationText(), after the steps
//
// A rank alone connects to itself, so that one GPU is enough to open NCCL.

#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/gradient_example.h"
#include "tests/trainer/trainer_rank.h"
#include "trainer/parallel/ddp.h"
#include "trainer/parallel/process_group.h"
#include "trainer/train.h"

namespace ranklog::trainer {
namespace {

std::atomic<int> begun_all_reduces = 0;

// Counts the all-reduces whose begin Gloo's thread reports to LibTorch's profiler.
void CountAllReduces() {
  at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function)
                                                       -> std::unique_ptr<at::ObserverContext> {
                          if (std::strstr(function.name(), ":all_reduce") != nullptr) {
                            ++begun_all_reduces;
                          }
                          return nullptr;
                        }).scopes({at::RecordScope::USER_SCOPE}));
}

}  // namespace

int GradientRank(const std::vector<std::string>& arguments) {
  const int rank = std::atoi(std::getenv("RANK")),
            world_size = std::atoi(std::getenv("WORLD_SIZE"));
  const auto file = [&](const std::string& kind, int64_t step) {
    return arguments.at(0) + "/" + kind + "." + std::to_string(step) + "." + std::to_string(rank);
  };
  auto rendezvous = Rendezvous::FromEnvironment(rank, world_size);
  std::optional<HostedStore> store;
  if (world_size == 1) {
    store = *HostedStore::Serve();
    rendezvous->address = "127.0.0.1";
    rendezvous->port = store->port();
    rendezvous->hosted = true;
  }
  const Comm comm = arguments.size() > 1 && arguments[1] == "nccl" ? Comm::kNccl : Comm::kGloo;
  auto placement = ChoosePlacement(comm, rank, FindGpus());
  if (!placement.ok()) {
    std::cerr << placement.status().message() << "\n";
    return 1;
  }
  auto group = ProcessGroup::Join(*rendezvous, {.placement = *placement, .connect_alone = true});
  if (!group.ok()) {
    std::cerr << group.status().message() << "\n";
    return 1;
  }
  {
    Gpt model(ExampleShape(), /*seed=*/1 + rank);  // rank 0's weights must replace the others
    model.to(group->device());
    Ddp ddp(model.parameters(), *group);
    CountAllReduces();
    // Delays the backward pass until an all-reduce begins. Only a queued all-reduce can begin, but
    // Gloo's thread may start it after the next gradient.
    int before_first_layer = 0;
    bool wait = false;
    model.named_parameters()["h.0.ln_1.weight"].register_hook([&](const at::Tensor&) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
      while (wait && begun_all_reduces == 0 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
      before_first_layer = begun_all_reduces;
    });
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int64_t micro = 0; micro < kMicroBatches; ++micro) {
        const Ddp::NoSync accumulate(ddp, /*on=*/micro + 1 < kMicroBatches);
        ddp.BeforeForward();
        const int64_t first = (rank * kMicroBatches + micro) * kMicroBatch;
        const at::Tensor loss = ExampleLoss(model, step, first, kMicroBatch) / kMicroBatches;
        ddp.BeforeBackward();
        begun_all_reduces = 0;
        wait = micro + 1 == kMicroBatches;
        loss.backward();
        if (micro == 0) WriteFloats(file("local", step), Gradients(model));
      }
      WriteFloats(file("synced", step), Gradients(model));
      WriteFloats(file("overlap", step), {static_cast<float>(before_first_layer),
                                          static_cast<float>(begun_all_reduces.load())});
      Descend(model);
    }
    const double loss = Validate(model, Tokens(ValidationText()), ValidationOptions(), *group);
    WriteFloats(file("validation", kSteps), {static_cast<float>(loss)});
  }
  group->Leave();
  return 0;
}

}  // namespace ranklog::trainer
