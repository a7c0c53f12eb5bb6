#include "trainer/run_log.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <string>

namespace ranklog::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RunIdTest, HashesDirectoryAndName) {
  // printf %s/%s /data/out first | sha1sum
  EXPECT_EQ(RunId("/data/out", "first"), "eee57a389fb01e9a6735e05aa11d7a23604622cc");
}

TEST(RunIdTest, OneDirectoryHasOneId) {
  const std::string id = RunId("/data/out", "first");
  for (const char* same : {"/data/out/", "/data//out", "/data/./out", "/data/x/../out"})
    EXPECT_EQ(RunId(same, "first"), id) << same;
  EXPECT_EQ(RunId("out", "first"), RunId(std::filesystem::current_path() / "out", "first"));
  EXPECT_NE(RunId("out", "first"), RunId("/out", "first"));
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
  EXPECT_EQ(settings.resume, "");  // a second start is a new run, except with --resume
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

TEST(SettingsErrorTest, NamesFlagsOfWrongSettings) {
  Options options;
  Settings settings;
  settings.project = "a/b";
  EXPECT_EQ(
      SettingsError(options, settings),
      "training did not start: project contains one of / \\ # ? % :, which the trackers refuse");
  options.project = "a/b";
  options.group = "\xff";
  options.save_dir = "out";
  options.experiment_name = std::string(2000, 'n');
  ApplyOptions(options, settings);
  EXPECT_EQ(
      SettingsError(options, settings),
      "training did not start: --project contains one of / \\ # ? % :, which the trackers refuse; "
      "--experiment-name is longer than 1024 bytes; --group is not UTF-8");
}

// Init() would use replacements, but the training does not start.
TEST(SettingsErrorTest, OmitsReplacements) {
  EXPECT_EQ(SettingsError({}, Settings()), "");
  const std::map<const char*, const char*> wrong = {{"RANKLOG_RUN_ID", "a/b"},
                                                    {"RANKLOG_RESUME", "x"},
                                                    {"RANKLOG_LOG_STRATEGY", "x"},
                                                    {"RANKLOG_FINISH", "x"},
                                                    {"RANKLOG_RANK_STATISTICS", "x"},
                                                    {"RANKLOG_ADDRESS", "x"},
                                                    {"RANKLOG_QUIET", "x"},
                                                    {"RANKLOG_SPOOL_BYTES", "x"},
                                                    {"RANKLOG_FLUSH_INTERVAL_MS", "0"},
                                                    {"RANKLOG_RANK", "-1"},
                                                    {"RANKLOG_WORLD_SIZE", "2"},
                                                    {"WANDB_MODE", "x"}};
  for (const auto& [name, value] : wrong) setenv(name, value, 1);
  const std::string error = SettingsError({}, Settings::FromEnvironment());
  for (const auto& [name, value] : wrong) unsetenv(name);
  for (const char* replacement : {"Init()", "counts as", "this node"})
    EXPECT_THAT(error, Not(HasSubstr(replacement)));
  EXPECT_THAT(error,
              AllOf(StartsWith("training did not start: "), HasSubstr("WANDB_MODE=x is unknown")));
}

// The value of a config's key, as text.
std::string Get(const std::vector<Value::Field>& config, const std::string& key) {
  for (const auto& [name, value] : config) {
    if (name != key) continue;
    const ranklog_field& field = value.field();
    if (field.kind == RANKLOG_TEXT) return std::string(field.text, field.size);
    if (field.kind == RANKLOG_SIGNED) return std::to_string(field.signed_integer);
    EXPECT_EQ(field.kind, RANKLOG_NUMBER);
    return std::to_string(field.number);
  }
  return "absent";
}

TEST(RunConfigTest, HasOptionsAndDerivedValues) {
  Options options;
  options.epochs = 2;
  options.batch_size = 4;
  options.grad_accum = 3;
  options.seq_len = 10;
  options.experiment_name = "first";
  const auto config = RunConfig(options, MakePlan(options, /*batches_per_epoch=*/7),
                                {.data_source = "text",
                                 .vocabulary = 256,
                                 .parameters = 70,
                                 .training_tokens = 1000,
                                 .world_size = 2,
                                 .nproc_per_node = 2});
  EXPECT_EQ(Get(config, "data"), "text");
  EXPECT_EQ(Get(config, "vocabulary"), "256");
  EXPECT_EQ(Get(config, "parameters"), "70");
  EXPECT_EQ(Get(config, "training_tokens"), "1000");
  EXPECT_EQ(Get(config, "world_size"), "2");
  EXPECT_EQ(Get(config, "nproc_per_node"), "2");
  EXPECT_EQ(Get(config, "tokens_per_step"), "240");
  EXPECT_EQ(Get(config, "batches_per_epoch"), "7");
  EXPECT_EQ(Get(config, "steps_per_epoch"), "3");
  EXPECT_EQ(Get(config, "steps"), "6");
  EXPECT_EQ(Get(config, "epochs"), "2.000000");
  EXPECT_EQ(Get(config, "warmup_steps"), "3");
  EXPECT_EQ(Get(config, "val_every"), "3");
  EXPECT_EQ(Get(config, "experiment_name"), "first");
  EXPECT_EQ(Get(config, "dtype") + Get(config, "comm"), "float32gloo");
}

// An epoch that is shorter than --grad-accum is one step.
TEST(RunConfigTest, CountsTokensPerStep) {
  Options options;
  options.batch_size = 4;
  options.grad_accum = 64;
  options.seq_len = 16;
  const auto config = RunConfig(options, MakePlan(options, /*batches_per_epoch=*/17), {});
  EXPECT_EQ(Get(config, "tokens_per_step"), "1088");
}

TEST(RunConfigTest, NamesPrecisionAndBackend) {
  Options options;
  options.bfloat16 = true;
  const auto config = RunConfig(options, MakePlan(options, 1), {.nccl = true});
  EXPECT_EQ(Get(config, "dtype") + Get(config, "comm"), "bfloat16nccl");
}

}  // namespace
}  // namespace ranklog::trainer
