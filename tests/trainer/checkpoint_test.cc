#include "trainer/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "trainer/checkpoint/safetensors.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

// A training of two numbers, with a random input in each step.
class Training {
 public:
  explicit Training(int64_t outputs = 3)
      : model_(torch::nn::LinearOptions(4, outputs)),
        optimizer_(model_->parameters(), torch::optim::AdamWOptions(0.1)) {}

  std::vector<double> Losses(int count) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i) {
      optimizer_.zero_grad();
      const at::Tensor loss = model_(at::randn({8, 4})).square().mean();
      loss.backward();
      optimizer_.step();
      losses.push_back(loss.item<double>());
    }
    return losses;
  }
  Checkpoint Save() {
    Checkpoint checkpoint{.run_id = "run",
                          .step = 5,
                          .sampler = {.epoch = 2, .next = 30},
                          .options = {{"seed", "1"}, {"data", "\"ü\""}},
                          .random = RandomState(at::kCPU).unsqueeze(0),
                          .tensors = {}};
    AddState(*model_, optimizer_, checkpoint);
    return checkpoint;
  }
  absl::Status Restore(const Checkpoint& checkpoint) {
    absl::Status status = RestoreModel(checkpoint, *model_);
    if (status.ok()) status = RestoreOptimizer(checkpoint, *model_, optimizer_);
    if (status.ok()) status = SetRandomState(checkpoint.random[0], at::kCPU);
    return status;
  }
  torch::nn::Linear& model() { return model_; }

 private:
  torch::nn::Linear model_;
  torch::optim::AdamW optimizer_;
};

class CheckpointTest : public ::testing::Test {
 protected:
  // The checkpoint after a write and a read.
  Checkpoint Reread(const Checkpoint& checkpoint) {
    EXPECT_OK(WriteCheckpoint(path_, checkpoint));
    absl::StatusOr<Checkpoint> read = ReadCheckpoint(path_);
    EXPECT_OK(read.status());
    return read.ok() ? *std::move(read) : Checkpoint();
  }
  // The status of reading a checkpoint file with this change.
  absl::Status ReadChanged(const std::function<void(SafeTensors&)>& change) {
    EXPECT_OK(WriteCheckpoint(path_, Training().Save()));
    absl::StatusOr<SafeTensors> file = ReadSafeTensors(path_);
    EXPECT_OK(file.status());
    change(*file);
    EXPECT_OK(WriteSafeTensors(path_, *file));
    return ReadCheckpoint(path_).status();
  }

  const ranklog::testing::TempDir dir_;
  const std::string path_ = dir_.File("a.safetensors");
};

TEST_F(CheckpointTest, RestoredTrainingContinuesBitForBit) {  // S31
  at::manual_seed(1);
  Training first;
  first.Losses(5);
  const Checkpoint checkpoint = Reread(first.Save());
  const std::vector<double> expected = first.Losses(5);

  at::manual_seed(2);
  Training second;
  ASSERT_OK(second.Restore(checkpoint));
  EXPECT_EQ(second.Losses(5), expected);
  EXPECT_TRUE(at::equal(second.model()->weight, first.model()->weight));
}

TEST_F(CheckpointTest, MetadataSurviveRoundTrip) {  // S30
  Training training;
  training.Losses(1);
  const Checkpoint got = Reread(training.Save());
  EXPECT_EQ(got.run_id, "run");
  EXPECT_EQ(got.step, 5);
  EXPECT_EQ(got.sampler.epoch, 2);
  EXPECT_EQ(got.sampler.next, 30);
  EXPECT_EQ(got.options, training.Save().options);
  EXPECT_EQ(got.world_size(), 1);
  EXPECT_THAT(got.tensors, AllOf(Contains(Key("model.weight")), Contains(Key("model.bias")),
                                 Contains(Key("optimizer.exp_avg.weight")),
                                 Contains(Key("optimizer.exp_avg_sq.bias")),
                                 Contains(Key("optimizer.step.bias"))));
}

TEST_F(CheckpointTest, FillsParametersInPlace) {
  Training training, other;
  const void* const before = other.model()->weight.data_ptr();
  ASSERT_OK(RestoreModel(training.Save(), *other.model()));
  EXPECT_EQ(other.model()->weight.data_ptr(), before);
  EXPECT_TRUE(at::equal(other.model()->weight, training.model()->weight));
}

TEST_F(CheckpointTest, OptimizerHasNoStateBeforeStepping) {
  const Checkpoint checkpoint = Training().Save();
  Training other;
  EXPECT_OK(RestoreModel(checkpoint, *other.model()));
  EXPECT_THAT(other.Restore(checkpoint),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("optimizer.exp_avg")));
  EXPECT_EQ(other.Losses(1).size(), 1u);  // a failed restore changed nothing
}

TEST_F(CheckpointTest, NamesTheParameterThatDiffers) {
  Training training, wider(/*outputs=*/4);
  const at::Tensor before = wider.model()->weight.clone();
  EXPECT_THAT(
      wider.Restore(training.Save()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("cannot restore model.weight: it is Float (3, 4) in the checkpoint"),
                     HasSubstr("Float (4, 4) in this model"))));
  EXPECT_TRUE(at::equal(wider.model()->weight, before));
  Checkpoint less = training.Save(), more = training.Save();
  less.tensors.erase("model.bias");
  EXPECT_THAT(training.Restore(less),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.bias: the checkpoint has no such tensor")));
  more.tensors["model.more"] = at::zeros({1});
  EXPECT_THAT(training.Restore(more),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.more: this model has no such tensor")));
}

// The random state of another version of LibTorch may have another size.
TEST_F(CheckpointTest, RejectsRandomStateOfOtherSize) {
  EXPECT_THAT(SetRandomState(at::zeros({16}, at::kByte), at::kCPU),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("16 bytes")));
}

TEST_F(CheckpointTest, RefusesANewerVersion) {
  EXPECT_THAT(ReadChanged([](SafeTensors& file) { file.metadata["ranklog_checkpoint"] = "2"; }),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("version 2")));
}

TEST_F(CheckpointTest, RejectsInvalidCheckpointFiles) {
  const std::vector<std::function<void(SafeTensors&)>> changes = {
      [](SafeTensors& file) { file.metadata.clear(); },
      [](SafeTensors& file) { file.metadata["ranklog_checkpoint"] = "new"; },
      [](SafeTensors& file) { file.metadata.erase("run_id"); },
      [](SafeTensors& file) { file.metadata["step"] = "-1"; },
      [](SafeTensors& file) { file.metadata["epoch"] = ""; },
      [](SafeTensors& file) { file.metadata.erase("next_sample"); },
      [](SafeTensors& file) { file.metadata["options"] = "{"; },
      [](SafeTensors& file) { file.metadata["options"] = R"({"seed":1})"; },
      [](SafeTensors& file) { file.tensors.erase("random"); },
      [](SafeTensors& file) { file.tensors["random"] = at::zeros({5}, at::kByte); },
      [](SafeTensors& file) {
        file.tensors["random"] = at::zeros({1, 5});
      },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_THAT(ReadChanged(changes[i]),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path_)))
        << i;
  }
}

}  // namespace
}  // namespace ranklog::trainer
