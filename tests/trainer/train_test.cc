#include "trainer/train.h"

#include <ATen/ATen.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ranklog::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    options_.seed = 2;
    options_.steps = 40;
    options_.batch_size = 4;
    options_.seq_len = 32;
    options_.lr = 3e-3;
    options_.warmup_steps = 4;
    options_.val_every = 20;
    const std::string sentence = "The ranks meet, and each one keeps its log. ";
    std::vector<uint8_t> text;
    for (int i = 0; i < 200; ++i) text.insert(text.end(), sentence.begin(), sentence.end());
    corpus_.train = Tokens(std::move(text));
    corpus_.validation = corpus_.train.Part(0, 400);
  }

  std::vector<StepReport> Run() {
    ProcessGroup alone = ProcessGroup::Alone();
    ranklog::Run no_run;  // drops all rows
    std::vector<StepReport> reports;
    const Plan plan = MakePlan(options_, corpus_, /*world_size=*/1);
    absl::StatusOr<Saver> saver = Saver::Open(options_, plan, /*fingerprint=*/{}, alone);
    EXPECT_OK(saver.status());
    end_ = Train(
        options_, corpus_, alone, no_run, *saver, stop_,
        [&](const StepReport& report) { reports.push_back(report); }, lag_);
    return reports;
  }

  Options options_;
  Corpus corpus_;
  const StopSignal stop_;
  std::optional<size_t> lag_ = {};  // see ReadBack
  TrainEnd end_ = TrainEnd::kDone;  // of the last training
};

TEST_F(TrainTest, LearnsAShortText) {
  const std::vector<StepReport> reports = Run();
  ASSERT_EQ(reports.size(), 40u);
  EXPECT_NEAR(reports.front().loss, std::log(256),
              0.2);  // untrained: all bytes are equally likely
  EXPECT_LT(reports.back().loss, 1.5);
  EXPECT_LT(*reports.back().val_loss, 1.5);
}

TEST_F(TrainTest, ReportsEveryStep) {  // S32
  options_.steps = 5;
  options_.val_every = 2;
  const std::vector<StepReport> reports = Run();
  ASSERT_EQ(reports.size(), 5u);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(reports[i].step, i + 1);
    EXPECT_EQ(reports[i].steps, 5);
    EXPECT_GT(reports[i].tokens_per_second, 0);
    EXPECT_GT(reports[i].grad_norm, 0);
    EXPECT_EQ(reports[i].val_loss.has_value(), i + 1 == 2 || i + 1 == 4 || i + 1 == 5) << i;
  }
  EXPECT_DOUBLE_EQ(reports[0].lr, 3e-3 / 4);
}

TEST_F(TrainTest, ShortStepAndValidationEndEpochs) {
  corpus_.train =
      corpus_.train.Part(0, 11 * 32 + 1);  // 11 sequences: batches of 4, 4 and 3 or fewer
  options_.epochs = 2;
  options_.grad_accum = 2;
  options_.val_every.reset();
  const std::vector<StepReport> reports = Run();
  ASSERT_EQ(reports.size(), 4u);  // an epoch has 3 batches, in steps of two batches and one
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(reports[i].epoch, (i + 1) / 2.0);
    EXPECT_EQ(reports[i].val_loss.has_value(), i % 2 == 1) << i;
  }
}

TEST_F(TrainTest, SignalBeforeFirstStepStopsTraining) {
  raise(SIGTERM);
  EXPECT_THAT(Run(), IsEmpty());
  EXPECT_EQ(end_, TrainEnd::kSignal);
}

TEST_F(TrainTest, DivergenceErrorNamesStepAndCheckpoint) {
  const ranklog::testing::TempDir dir;
  options_.save_dir = dir.path();
  options_.experiment_name = "lost";
  options_.save_every = 1;
  options_.warmup_steps = 0;
  options_.lr = 1e30;
  try {
    Run();
    FAIL() << "it went on";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("step 2: the loss is "), HasSubstr("nan"),
                      HasSubstr("--init-from " + dir.File("lost/checkpoint-00000001.safetensors") +
                                " --experiment-name NEW --lr LOWER, without --resume. "),
                      HasSubstr("has the checkpoints of steps 1")));
  }
  EXPECT_TRUE(std::filesystem::exists(dir.File("lost/checkpoint-00000001.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(dir.File("lost/checkpoint-00000002.safetensors")));
}

TEST_F(TrainTest, DoesNotSaveNonFiniteWeights) {
  const ranklog::testing::TempDir dir;
  options_.save_dir = dir.path();
  options_.experiment_name = "spoilt";
  options_.save_every = 1;
  options_.warmup_steps = 0;
  options_.lr = 3e37;  // the loss and the gradient of the step are still finite
  try {
    Run();
    FAIL() << "it went on";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cannot save the checkpoint of step 1: tensor model."),
                      HasSubstr("no checkpoint exists: start again with a lower --lr"),
                      Not(HasSubstr("--resume"))));
  }
  EXPECT_FALSE(std::filesystem::exists(dir.File("spoilt/checkpoint-00000001.safetensors")));
}

// As on a GPU, where the numbers of a step are read during the next one.
TEST_F(TrainTest, LaterReadBackChangesNothing) {  // S34
  const ranklog::testing::TempDir dir;
  options_.steps = 8;
  options_.val_every = 4;
  options_.save_every = 3;
  options_.save_dir = dir.path();
  options_.keep = 3;
  std::vector<StepReport> reports[2];
  for (const size_t lag : {0, 1}) {
    lag_ = lag;
    options_.experiment_name = std::to_string(lag);
    reports[lag] = Run();
    ASSERT_EQ(reports[lag].size(), 8u);
  }
  for (size_t i = 0; i < 8; ++i) {
    const StepReport &now = reports[0][i], &later = reports[1][i];
    EXPECT_EQ(later.step, static_cast<int64_t>(i + 1));
    EXPECT_EQ(later.loss, now.loss) << i + 1;
    EXPECT_EQ(later.grad_norm, now.grad_norm) << i + 1;
    EXPECT_EQ(later.lr, now.lr) << i + 1;
    EXPECT_EQ(later.tokens, now.tokens) << i + 1;
    EXPECT_EQ(later.epoch, now.epoch) << i + 1;
    EXPECT_EQ(later.val_loss, now.val_loss) << i + 1;
  }
  for (const char* step : {"3", "6", "8"}) {
    const auto read = [&](const char* name) {
      return ReadCheckpoint(
          dir.File(std::string(name) + "/checkpoint-0000000" + step + ".safetensors"));
    };
    ASSERT_OK_AND_ASSIGN(const Checkpoint now, read("0"));
    ASSERT_OK_AND_ASSIGN(const Checkpoint later, read("1"));
    EXPECT_EQ(later.train_loss, now.train_loss) << step;
    ASSERT_EQ(later.tensors.size(), now.tensors.size());
    for (const auto& [name, value] : now.tensors)
      EXPECT_TRUE(later.tensors.at(name).equal(value)) << step << " " << name;
  }
}

TEST_F(TrainTest, SameSeedGivesSameLosses) {
  options_.steps = 3;
  const std::vector<StepReport> first = Run(), second = Run();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(first[i].loss, second[i].loss);
  options_.seed = 3;
  EXPECT_NE(Run()[0].loss, first[0].loss);
}

}  // namespace
}  // namespace ranklog::trainer
