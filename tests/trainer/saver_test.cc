// Where a training starts; resume_test.cc has whole programs.

#include "trainer/saver.h"

#include <ATen/ATen.h>
#include <stdlib.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <filesystem>
#include <future>
#include <stdexcept>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

class SaverTest : public ::testing::Test {
 protected:
  SaverTest() {
    options_.save_dir = dir_.path();
    options_.experiment_name = "a";
    options_.resume = true;
    model_->forward(at::ones({1, 2})).sum().backward();
    optimizer_.step();
  }
  absl::StatusOr<int64_t> Restore(Saver& saver) {
    return saver.Restore(plan_, corpus_, *model_, optimizer_, sampler_);
  }
  // Saves a training of one rank that has done 7 steps.
  void SaveAfterSeven() {
    ProcessGroup alone = ProcessGroup::Alone();
    ASSERT_OK_AND_ASSIGN(Saver saver, Saver::Open(options_, alone));
    ASSERT_OK(Restore(saver).status());
    Checkpoint checkpoint{.run_id = "run", .step = 7, .sampler = {.epoch = 1, .next = 2}};
    AddState(*model_, optimizer_, checkpoint);
    saver.Save(std::move(checkpoint), /*last=*/true);
  }
  static at::Tensor RandomStateOf(uint64_t seed) {
    at::manual_seed(seed);
    return RandomState(at::kCPU);
  }

  const ranklog::testing::TempDir dir_;
  const std::string file_ = dir_.File("a/checkpoint-00000007.safetensors");
  Options options_;
  Plan plan_;
  Corpus corpus_;
  torch::nn::Linear model_{2, 2};
  torch::optim::AdamW optimizer_{model_->parameters()};
  EpochSampler sampler_{{.size = 8}};
};

TEST_F(SaverTest, EachRankTakesItsOwnRandomState) {
  SaveAfterSeven();
  ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint, ReadCheckpoint(file_));
  checkpoint.options["ranks"] = "2";
  checkpoint.random = at::stack({RandomStateOf(11), RandomStateOf(22)});
  ASSERT_OK(WriteCheckpoint(file_, checkpoint));

  setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  ASSERT_OK_AND_ASSIGN(const HostedStore store, HostedStore::Serve());
  const auto join = [&](int rank) {
    return ProcessGroup::Join({.rank = rank,
                               .world_size = 2,
                               .address = "127.0.0.1",
                               .port = store.port(),
                               .hosted = true});
  };
  auto other = std::async(std::launch::async, join, 1);
  ASSERT_OK_AND_ASSIGN(ProcessGroup first, join(0));
  ASSERT_OK_AND_ASSIGN(ProcessGroup second, other.get());
  for (ProcessGroup* group : {&first, &second}) {
    ASSERT_OK_AND_ASSIGN(Saver saver, Saver::Open(options_, *group));
    ASSERT_OK_AND_ASSIGN(const int64_t step, Restore(saver));
    EXPECT_EQ(step, 7);
    EXPECT_EQ(sampler_.position(), (SamplerPosition{.epoch = 1, .next = 2}));
    EXPECT_TRUE(RandomState(at::kCPU).equal(RandomStateOf(group->rank() == 0 ? 11 : 22)));
  }
}

// A directory stands where the file is written.
TEST_F(SaverTest, OnlyTheLastCheckpointMustBeWritten) {
  std::filesystem::create_directories(file_ + ".tmp/in the way");
  EXPECT_THROW(SaveAfterSeven(), std::runtime_error);
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Saver::Open(options_, alone));
  ASSERT_OK(Restore(saver).status());
  Checkpoint checkpoint{.step = 7};
  AddState(*model_, optimizer_, checkpoint);
  ::testing::internal::CaptureStderr();
  saver.Save(std::move(checkpoint), /*last=*/false);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr(file_));
}

}  // namespace
}  // namespace ranklog::trainer
