#include "trainer/run_log.h"

#include <gmock/gmock.h>

namespace ranklog::trainer {
namespace {

TEST(RunIdTest, IsTheSha1OfDirectoryAndName) {
  // printf %s/%s out first | sha1sum
  EXPECT_EQ(RunId("out", "first"), "f139217b426684b9ab0da583d66e69fc6b9f3b74");
}

TEST(ApplyOptionsTest, FlagsWinOverTheEnvironment) {
  Settings settings;
  settings.project = "theirs";
  settings.group = "kept";
  settings.run_id = "theirs";
  Options options;
  options.save_dir = "out";
  options.experiment_name = "first";
  options.project = "ours";
  options.log_strategy = LogStrategy::kNode;
  ApplyOptions(options, settings);
  EXPECT_EQ(settings.project, "ours");
  EXPECT_EQ(settings.group, "kept");
  EXPECT_EQ(settings.run_id, RunId("out", "first"));
  EXPECT_EQ(settings.name, "first");
  EXPECT_EQ(settings.resume, "allow");
  EXPECT_EQ(settings.log_strategy, LogStrategy::kNode);
}

TEST(ApplyOptionsTest, WithoutFlagsTheEnvironmentStays) {
  Settings settings;
  settings.run_id = "theirs";
  settings.name = "theirs";
  settings.log_strategy = LogStrategy::kAll;
  ApplyOptions({}, settings);
  EXPECT_EQ(settings.run_id, "theirs");
  EXPECT_EQ(settings.name, "theirs");
  EXPECT_EQ(settings.log_strategy, LogStrategy::kAll);
}

TEST(RunConfigTest, SaysHowManyTokensAStepTakes) {
  Options options;
  options.batch_size = 4;
  options.grad_accum = 3;
  options.seq_len = 10;
  const auto config = RunConfig(options, "text", /*parameters=*/7, /*world_size=*/2);
  for (const auto& [key, value] : config) {
    if (key == "tokens_per_step") {
      EXPECT_EQ(std::get<int64_t>(value.data()), 240);
      return;
    }
  }
  ADD_FAILURE() << "no tokens_per_step";
}

}  // namespace
}  // namespace ranklog::trainer
