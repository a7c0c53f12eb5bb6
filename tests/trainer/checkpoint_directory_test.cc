#include "trainer/checkpoint/checkpoint_directory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "trainer/checkpoint/safetensors.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointDirectoryTest : public ::testing::Test {
 protected:
  CheckpointDirectory Open(int keep = 2) {
    absl::StatusOr<CheckpointDirectory> opened = CheckpointDirectory::Open(path_, keep);
    EXPECT_OK(opened.status());
    return *std::move(opened);
  }
  static Checkpoint At(int64_t step, double train_loss = std::numeric_limits<double>::quiet_NaN()) {
    return {.run_id = "run",
            .step = step,
            .train_loss = train_loss,
            .sampler = {},
            .options = {},
            .random = at::zeros({1, 8}, at::kByte),
            .tensors = {{"model.a", at::full({100}, step)}}};
  }
  // The step of the newest checkpoint; -1: no checkpoint.
  int64_t LatestStep(const CheckpointDirectory& directory) {
    const auto found =
        directory.Latest([&](const std::string& warning) { warnings_.push_back(warning); });
    EXPECT_OK(found.status());
    return !found.ok() || !*found ? -1 : (*found)->checkpoint.step;
  }
  std::vector<std::string> Files(const std::string& below = "") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_ + below))
      if (entry.path().filename() != ".lock") names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  const ranklog::testing::TempDir dir_;
  const std::string path_ = dir_.File("save/experiment");
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointDirectoryTest, KeepsLastCheckpointsAndFindsNewest) {  // S30
  CheckpointDirectory directory = Open(/*keep=*/2);
  EXPECT_EQ(LatestStep(directory), -1);
  for (const int64_t step : {5, 10, 99999999, 100000000}) {
    ASSERT_OK(directory.Save(At(step)));
    EXPECT_EQ(LatestStep(directory), step);
  }
  EXPECT_THAT(Files(),
              ElementsAre("checkpoint-100000000.safetensors", "checkpoint-99999999.safetensors"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CheckpointDirectoryTest, SkipsTornAndForeignCheckpoints) {  // S30
  CheckpointDirectory directory = Open(/*keep=*/9);
  for (const int64_t step : {1, 2, 3}) ASSERT_OK(directory.Save(At(step)));
  std::filesystem::resize_file(directory.PathOf(3),
                               std::filesystem::file_size(directory.PathOf(3)) - 100);
  ASSERT_OK(WriteSafeTensors(directory.PathOf(4), {}));
  std::ofstream(directory.PathOf(5)) << "no safetensors";
  std::filesystem::copy_file(directory.PathOf(1), directory.PathOf(6));
  std::ofstream(path_ + "/checkpoint-7.safetensors") << "another naming";
  EXPECT_EQ(LatestStep(directory), 2);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr(directory.PathOf(6)), HasSubstr(directory.PathOf(5)),
                                     HasSubstr(directory.PathOf(4)),
                                     AllOf(HasSubstr(directory.PathOf(3)), HasSubstr("bytes"))));
}

// The loss rose at step 4: the weights of this and the later steps are spoilt.
TEST_F(CheckpointDirectoryTest, KeepsCheckpointsBeforeLossRise) {
  CheckpointDirectory directory = Open(/*keep=*/2);
  for (const int64_t step : {1, 2, 3}) ASSERT_OK(directory.Save(At(step, /*train_loss=*/3)));
  for (const int64_t step : {4, 5, 6, 7}) ASSERT_OK(directory.Save(At(step, 1e6 * step)));
  EXPECT_THAT(Files(),
              ElementsAre("checkpoint-00000002.safetensors", "checkpoint-00000003.safetensors",
                          "checkpoint-00000006.safetensors", "checkpoint-00000007.safetensors"));
  EXPECT_EQ(directory.LowestLoss(), 3);
  const std::string advice = AdviceAfterDivergence(path_);
  EXPECT_THAT(advice, HasSubstr("--init-from " + directory.PathOf(2) + " "));
  EXPECT_TRUE(advice.ends_with(" has the checkpoints of steps 2 (loss 3), 3 (loss 3)")) << advice;
  // The loss has recovered.
  ASSERT_OK(directory.Save(At(8, /*train_loss=*/4)));
  EXPECT_THAT(Files(),
              ElementsAre("checkpoint-00000007.safetensors", "checkpoint-00000008.safetensors"));
}

TEST(LossRiseTest, FewTokensAllowMoreNoise) {
  EXPECT_EQ(LossRise(1 << 20), kLossRise);
  EXPECT_EQ(LossRise(256), kLossRise);
  EXPECT_EQ(LossRise(16), 4 * kLossRise);
}

TEST_F(CheckpointDirectoryTest, RemovesOldBeforeWritingNew) {
  {
    CheckpointDirectory directory = Open(/*keep=*/3);
    for (const int64_t step : {1, 2, 3}) ASSERT_OK(directory.Save(At(step)));
  }
  Open(/*keep=*/1).RemoveOld(2);
  EXPECT_THAT(Files(),
              ElementsAre("checkpoint-00000002.safetensors", "checkpoint-00000003.safetensors"));
}

// Otherwise they would count as the last checkpoints, and the new ones would be removed.
TEST_F(CheckpointDirectoryTest, TornLaterCheckpointsDoNotCount) {
  CheckpointDirectory directory = Open(/*keep=*/2);
  for (const int64_t step : {1, 20, 30}) std::ofstream(directory.PathOf(step)) << "torn";
  for (const int64_t step : {10, 11, 12}) ASSERT_OK(directory.Save(At(step)));
  EXPECT_EQ(LatestStep(directory), 12);
  EXPECT_THAT(Files(),
              ElementsAre("checkpoint-00000011.safetensors", "checkpoint-00000012.safetensors",
                          "checkpoint-00000020.safetensors", "checkpoint-00000030.safetensors"));
}

TEST_F(CheckpointDirectoryTest, DoesNotSkipNewerVersionCheckpoint) {
  CheckpointDirectory directory = Open();
  for (const int64_t step : {1, 2}) ASSERT_OK(directory.Save(At(step)));
  ASSERT_OK_AND_ASSIGN(SafeTensors file, ReadSafeTensors(directory.PathOf(2)));
  file.metadata["ranklog_checkpoint"] = "2";
  ASSERT_OK(WriteSafeTensors(directory.PathOf(2), file));
  EXPECT_THAT(directory.Latest([](const std::string&) {}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(directory.PathOf(2))));
}

TEST_F(CheckpointDirectoryTest, OnlyDamagedCheckpointsReportDataLoss) {
  CheckpointDirectory directory = Open();
  std::ofstream(directory.PathOf(3)) << "torn";
  EXPECT_THAT(directory.Latest([](const std::string&) {}).status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr(path_), HasSubstr("without --resume"))));
}

TEST_F(CheckpointDirectoryTest, RemovesUnfinishedFiles) {
  std::filesystem::create_directories(path_);
  std::ofstream(path_ + "/checkpoint-00000001.safetensors.tmp") << "half";
  std::ofstream(path_ + "/notes.tmp") << "mine";
  Open();
  EXPECT_THAT(Files(), ElementsAre("notes.tmp"));
}

TEST_F(CheckpointDirectoryTest, SetsAnEarlierRunAside) {
  CheckpointDirectory directory = Open();
  EXPECT_EQ(*directory.SetAside(), "");
  EXPECT_EQ(directory.RunsWithCheckpoints(), 0);
  int64_t runs = 0;
  for (const std::string name : {"/earlier-1", "/earlier-2"}) {
    ASSERT_OK(directory.Save(At(5)));
    EXPECT_EQ(directory.RunsWithCheckpoints(), ++runs);
    EXPECT_EQ(*directory.SetAside(), path_ + name);
    EXPECT_THAT(Files(name), ElementsAre("checkpoint-00000005.safetensors"));
    EXPECT_EQ(LatestStep(directory), -1);
    EXPECT_EQ(directory.RunsWithCheckpoints(), runs);
  }
}

TEST_F(CheckpointDirectoryTest, WaitsForLockOfEndingTraining) {
  std::filesystem::create_directories(path_);
  ranklog::testing::ChildProcess other(
      {"flock", "--no-fork", path_ + "/.lock", "sh", "-c", "echo locked; exec sleep 1000"});
  ASSERT_TRUE(ranklog::testing::WaitFor([&] { return other.Output() == "locked\n"; }));
  std::string said;
  const auto report = [&](const std::string& text) {
    said += text;
    other.Signal(SIGKILL);
  };
  EXPECT_OK(CheckpointDirectory::Open(path_, 1, report).status());
  EXPECT_THAT(said, AllOf(HasSubstr("waiting up to 10s"), HasSubstr(path_)));
}

TEST_F(CheckpointDirectoryTest, UnusableDirectoryErrorNamesPath) {
  std::filesystem::create_directories(dir_.File("save"));
  std::ofstream(path_) << "a file";
  EXPECT_THAT(CheckpointDirectory::Open(path_, 1).status().message(), HasSubstr(path_));
  EXPECT_THAT(CheckpointDirectory::Open("/proc/none", 1).status().message(),
              HasSubstr("/proc/none"));
}

TEST_F(CheckpointDirectoryTest, NamesNewestAfterKill) {
  CheckpointDirectory directory = Open();
  EXPECT_EQ(AdviceAfterKill(path_), "no checkpoint exists in " + path_);
  for (const int64_t step : {1, 2}) ASSERT_OK(directory.Save(At(step)));
  EXPECT_EQ(AdviceAfterKill(path_), "the newest checkpoint is " + directory.PathOf(2) +
                                        "; to continue, run the same command with --resume");
}

TEST_F(CheckpointDirectoryTest, DivergenceAdviceNamesExistingCheckpoints) {
  EXPECT_EQ(AdviceAfterDivergence(""), "no checkpoint exists: start again with a lower --lr");
  for (int i = 1; i <= 6; ++i)
    std::ofstream(dir_.File("checkpoint-0000000" + std::to_string(i) + ".safetensors"));
  const std::string advice = AdviceAfterDivergence(dir_.path());
  EXPECT_THAT(advice, HasSubstr("--init-from " + dir_.File("checkpoint-00000002.safetensors ")));
  EXPECT_THAT(advice, HasSubstr("steps 2, 3, 4, 5, 6"));
}

}  // namespace
}  // namespace ranklog::trainer
