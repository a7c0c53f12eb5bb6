// LibTorch and libranklog.so in one process: it computes tensors, and LibTorch throws, while rows
// stream over our gRPC. Exit code 0 if both work.

#include <torch/types.h>

#include <chrono>
#include <cstdio>

#include "ranklog/ranklog.h"

int main() {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  torch::Tensor weights = torch::ones({8, 8});  // (in, out), float32
  for (int step = 0; step < 50; ++step) {
    weights = weights.matmul(torch::eye(8) * 0.9);
    if (!run.Log({{"norm", weights.norm().item<double>()}}, step)) return 1;
    if (step % 10 == 0 && run.Flush(std::chrono::seconds(20)) != ranklog::FlushResult::kDurable) {
      return 2;
    }
  }
  try {
    weights.matmul(torch::ones({3}));  // exceptions still work
    return 3;
  } catch (const c10::Error&) {
  }
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 4;
}
