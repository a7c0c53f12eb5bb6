// The start that a process reports. Skipping wrappers needs real processes: see
// tests/integration/second_start_test.cc.

#include "client/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "client/base/text/short_name.h"
#include "client/launch/resolve.h"

namespace ranklog::internal {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

class LaunchTest : public ::testing::Test {
 protected:
  v1::Launch From(const std::map<std::string, std::string>& variables) {
    clearenv();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    Settings settings = Settings::FromEnvironment();
    const bool given = !settings.run_id.empty();
    return MakeLaunch(Resolve(std::move(settings)), given);
  }
};

TEST_F(LaunchTest, OneProcessIsItsOwnLauncher) {
  const v1::Launch launch = From({});
  EXPECT_FALSE(launch.id_given());
  EXPECT_TRUE(launch.whole_node());
  EXPECT_EQ(launch.process(), launch.id() + "@0");
}

TEST_F(LaunchTest, RepeatedInitIsNewStart) {
  const v1::Launch first = From({{"RANKLOG_RUN_ID", "each"}});
  const v1::Launch second = From({{"RANKLOG_RUN_ID", "each"}});
  EXPECT_TRUE(first.id_given());
  EXPECT_EQ(second.id(), first.id() + "#1");
  EXPECT_THAT(second.process(), EndsWith("@1"));
  EXPECT_EQ(From({{"RANKLOG_RUN_ID", "other"}}).id(), first.id());
}

TEST_F(LaunchTest, TorchrunRestartKeepsLaunch) {
  const v1::Launch launch = From({{"RANK", "1"},
                                  {"WORLD_SIZE", "2"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"TORCHELASTIC_RUN_ID", "none"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_TRUE(launch.restarts_ranks());
  EXPECT_TRUE(launch.whole_node());
  EXPECT_EQ(launch.restart(), 2u);
  EXPECT_EQ(launch.id(), FindLauncher().id);
  EXPECT_FALSE(launch.unseen());
}

TEST_F(LaunchTest, ASlurmStepIsALaunch) {
  std::map<std::string, std::string> step = {{"SLURM_JOB_ID", "7"},  {"SLURM_STEP_ID", "1"},
                                             {"SLURM_PROCID", "1"},  {"SLURM_STEP_NUM_TASKS", "2"},
                                             {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "0"}};
  EXPECT_EQ(From(step).id(), "slurm-7.1/0");
  step["SLURM_RESTART_COUNT"] = "1";
  const v1::Launch again = From(step);
  EXPECT_THAT(again.id(), StartsWith("slurm-7.1/1"));
  EXPECT_EQ(again.batch_job(), "slurm-7.1");
  EXPECT_EQ(again.requeue(), 1u);
}

// Each task of an array has a job id of its own. The tracker shows the tasks as one group.
TEST_F(LaunchTest, ArrayTasksShareAGroup) {
  std::map<std::string, std::string> task = {
      {"SLURM_JOB_ID", "8"},         {"SLURM_STEP_ID", "0"},      {"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_ARRAY_JOB_ID", "7"}, {"SLURM_ARRAY_TASK_ID", "1"}};
  const auto resolve = [&] {
    From(task);
    return Resolve(Settings::FromEnvironment());
  };
  EXPECT_EQ(resolve().run_id, "slurm-8-0");
  EXPECT_EQ(resolve().group, "slurm-7");
  task["SLURM_JOB_ID"] = "9";
  EXPECT_EQ(resolve().run_id, "slurm-9-0");
  EXPECT_EQ(resolve().group, "slurm-7");
  task["WANDB_RUN_GROUP"] = "sweep";
  EXPECT_EQ(resolve().group, "sweep");
}

// The daemon has another working directory.
TEST(ResolveTest, PathsBecomeAbsolute) {
  Settings settings;
  settings.spool_dir = "spool";
  settings.state_dir = "../state";
  settings = Resolve(std::move(settings));
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(settings.spool_dir, here + "/spool");
  EXPECT_EQ(settings.state_dir, here + "/../state");
  EXPECT_EQ(Resolve(Settings()).spool_dir, "");
}

// A process that its launcher restarts must find its run again.
TEST(RunIdTest, OneProcessHasItsLaunchersId) {
  const auto id = [](const std::map<std::string, std::string>& variables) {
    clearenv();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    return Resolve(Settings::FromEnvironment()).run_id;
  };
  EXPECT_NE(id({}), id({}));
  const std::map<std::string, std::string> step = {{"SLURM_JOB_ID", "7"},
                                                   {"SLURM_STEP_ID", "1"},
                                                   {"SLURM_PROCID", "0"},
                                                   {"SLURM_STEP_NUM_TASKS", "1"}};
  EXPECT_EQ(id(step), "slurm-7-1");
  std::map<std::string, std::string> one_of_several = step;
  one_of_several["SLURM_STEP_NUM_TASKS"] = "4";
  one_of_several["RANKLOG_RANK"] = "0";
  one_of_several["RANKLOG_WORLD_SIZE"] = "1";
  EXPECT_NE(id(one_of_several), id(one_of_several));
  EXPECT_NE(id({{"SLURM_JOB_ID", "7"}}), id({{"SLURM_JOB_ID", "7"}})) << "without srun";

  std::map<std::string, std::string> torchrun = {{"RANK", "0"},
                                                 {"WORLD_SIZE", "1"},
                                                 {"LOCAL_RANK", "0"},
                                                 {"LOCAL_WORLD_SIZE", "1"},
                                                 {"PMIX_NAMESPACE", "others"},
                                                 {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                 {"TORCHELASTIC_RUN_ID", "none"}};
  const std::string derived = id(torchrun);
  EXPECT_EQ(derived, HashName(FindLauncher().id));
  torchrun["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_EQ(id(torchrun), derived);
  torchrun["TORCHELASTIC_RUN_ID"] = "rendezvous";
  EXPECT_EQ(id(torchrun), derived) << "a user may give it twice";
}

// Somebody may have started each rank from its own shell.
TEST_F(LaunchTest, RankVariablesDoNotIdentifyLauncher) {
  const v1::Launch launch = From({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_FALSE(launch.whole_node());
  EXPECT_FALSE(launch.restarts_ranks());
}

}  // namespace
}  // namespace ranklog::internal
