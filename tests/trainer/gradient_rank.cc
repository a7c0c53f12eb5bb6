// gradient_rank DIR: one rank of ddp_test.cc. Takes the example's steps over Gloo, and writes its
// gradients to DIR/synced.STEP.RANK, and those after a step's first micro-batch to
// DIR/local.STEP.RANK.

#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/trainer/gradient_example.h"
#include "trainer/ddp.h"
#include "trainer/process_group.h"

int main(int, char** argv) {
  using namespace ranklog::trainer;
  const int rank = std::atoi(std::getenv("RANK")),
            world_size = std::atoi(std::getenv("WORLD_SIZE"));
  const auto file = [&](const std::string& kind, int64_t step) {
    return std::string(argv[1]) + "/" + kind + "." + std::to_string(step) + "." +
           std::to_string(rank);
  };
  auto rendezvous = Rendezvous::FromEnvironment(rank, world_size);
  auto group = ProcessGroup::Join(*rendezvous);
  if (!group.ok()) {
    std::cerr << group.status().message() << "\n";
    return 1;
  }
  {
    Gpt model(ExampleShape(), /*seed=*/1 + rank);  // rank 0's is to win
    Ddp ddp(model.parameters(), *group);
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int64_t micro = 0; micro < kMicroBatches; ++micro) {
        const Ddp::NoSync accumulate(ddp, /*on=*/micro + 1 < kMicroBatches);
        ddp.BeforeForward();
        const int64_t first = (rank * kMicroBatches + micro) * kMicroBatch;
        const at::Tensor loss = ExampleLoss(model, step, first, kMicroBatch) / kMicroBatches;
        ddp.BeforeBackward();
        loss.backward();
        if (micro == 0) WriteFloats(file("local", step), Gradients(model));
      }
      WriteFloats(file("synced", step), Gradients(model));
      Descend(model);
    }
  }
  group->Leave();
  return 0;
}
