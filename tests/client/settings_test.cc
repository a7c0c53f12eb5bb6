// Settings out of the environment of each launcher, what is wrong with them, and how they are
// resolved.

#include "ranklog/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <map>
#include <string>

#include "client/environment.h"
#include "client/resolve.h"

extern char** environ;

namespace ranklog {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

// Starts with an empty environment.
class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() { clearenv(); }

  Settings From(const std::map<std::string, std::string>& variables) {
    clearenv();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    return Settings::FromEnvironment();
  }
};

TEST_F(SettingsTest, AnEmptyEnvironmentIsOneRank) {
  const Settings settings = internal::Resolve(From({}));
  EXPECT_THAT(settings.Validate(), IsEmpty());
  EXPECT_EQ(*settings.rank, 0);
  EXPECT_EQ(*settings.world_size, 1);
  EXPECT_EQ(*settings.local_rank, 0);
  EXPECT_EQ(*settings.node_rank, 0);
  EXPECT_EQ(settings.project, "uncategorized");
  EXPECT_THAT(settings.run_id, MatchesRegex("[a-z0-9]{8}"));
  EXPECT_EQ(settings.group, settings.run_id);
  EXPECT_NE(settings.run_id, internal::Resolve(From({})).run_id);
}

TEST_F(SettingsTest, AKeyInAWrongVariableStaysOutOfTheError) {
  const std::string key(40, 'k');
  const Settings settings = From({{"WANDB_API_KEY", key}, {"WANDB_MODE", key + "x"}});
  EXPECT_THAT(settings.Validate(),
              ElementsAre("WANDB_MODE=[WANDB_API_KEY]x is none of online, offline, disabled"));
}

TEST_F(SettingsTest, OursWinOverWandbs) {  // S8
  const Settings settings = From({{"RANKLOG_PROJECT", "ours"},
                                  {"WANDB_PROJECT", "theirs"},
                                  {"WANDB_ENTITY", "team"},
                                  {"WANDB_TAGS", " a, b,,c "},
                                  {"WANDB_RUN_ID", "abc"},
                                  {"WANDB_API_KEY", "secret"},
                                  {"RANKLOG_LOG_STRATEGY", "node"},
                                  {"RANKLOG_SPOOL_BYTES", "65536"},
                                  {"RANKLOG_FLUSH_INTERVAL_MS", "1000"},
                                  {"RANKLOG_START_DAEMON", "no"}});
  EXPECT_EQ(settings.project, "ours");
  EXPECT_EQ(settings.entity, "team");
  EXPECT_THAT(settings.tags, ElementsAre("a", "b", "c"));
  EXPECT_EQ(settings.run_id, "abc");
  EXPECT_EQ(settings.credentials.at("WANDB_API_KEY"), "secret");
  EXPECT_EQ(settings.log_strategy, LogStrategy::kNode);
  EXPECT_EQ(settings.spool_bytes, 65536u);
  EXPECT_EQ(settings.flush_interval.count(), 1000);
  EXPECT_FALSE(settings.start_daemon);
  EXPECT_THAT(settings.Validate(), IsEmpty());
}

TEST_F(SettingsTest, WandbModes) {
  EXPECT_THAT(From({{"WANDB_MODE", "offline"}}).destinations, ElementsAre("local"));
  EXPECT_TRUE(From({{"WANDB_MODE", "disabled"}}).disabled);
  EXPECT_THAT(From({{"WANDB_MODE", "online"}}).destinations, IsEmpty());
  EXPECT_THAT(From({{"WANDB_MODE", "offline"}, {"RANKLOG_DESTINATIONS", "wandb"}}).destinations,
              ElementsAre("wandb"));
  EXPECT_THAT(From({{"WANDB_MODE", "sometimes"}}).Validate(), SizeIs(1));
}

TEST_F(SettingsTest, Torchrun) {  // S5
  const Settings settings = internal::Resolve(From({{"RANK", "3"},
                                                    {"WORLD_SIZE", "4"},
                                                    {"LOCAL_RANK", "1"},
                                                    {"LOCAL_WORLD_SIZE", "2"},
                                                    {"GROUP_RANK", "1"},
                                                    {"TORCHELASTIC_RUN_ID", "job-7"}}));
  EXPECT_EQ(*settings.rank, 3);
  EXPECT_EQ(*settings.local_rank, 1);
  EXPECT_EQ(*settings.node_rank, 1);
  EXPECT_EQ(settings.run_id, "job-7");
}

// All of them say local rank 0, which is the first of a node that has so many.
TEST_F(SettingsTest, WithoutALocalRankNobodyKnowsHowManyThereAre) {
  const Settings settings = internal::Resolve(From(
      {{"RANKLOG_RANK", "3"}, {"RANKLOG_WORLD_SIZE", "4"}, {"RANKLOG_LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_EQ(*settings.local_rank, 0);
  EXPECT_FALSE(settings.local_world_size.has_value());
}

TEST_F(SettingsTest, SlurmCountsOnlyInAStep) {  // S5
  std::map<std::string, std::string> batch = {{"SLURM_PROCID", "0"},
                                              {"SLURM_NTASKS", "4"},
                                              {"SLURM_LOCALID", "0"},
                                              {"SLURM_NODEID", "0"},
                                              {"SLURM_JOB_ID", "12"}};
  EXPECT_FALSE(From(batch).rank.has_value());
  batch.insert({{"SLURM_STEP_ID", "3"},
                {"SLURM_STEP_NUM_TASKS", "4"},
                {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                {"SLURMD_NODENAME", "n1"}});
  const Settings settings = internal::Resolve(From(batch));
  EXPECT_EQ(*settings.world_size, 4);
  EXPECT_EQ(*settings.local_world_size, 3);
  EXPECT_EQ(settings.node, "n1");
  EXPECT_EQ(settings.run_id, "slurm-12-3");
  batch.insert({{"RANK", "2"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(*From(batch).rank, 2);  // torchrun under srun
}

TEST_F(SettingsTest, SlurmsNotationOfTasks) {
  using internal::SlurmTasksOnNode;
  EXPECT_EQ(SlurmTasksOnNode("2(x3),1", 0), 2);
  EXPECT_EQ(SlurmTasksOnNode("2(x3),1", 2), 2);
  EXPECT_EQ(SlurmTasksOnNode("2(x3),1", 3), 1);
  EXPECT_FALSE(SlurmTasksOnNode("2(x3),1", 4).has_value());
  EXPECT_FALSE(SlurmTasksOnNode("many", 0).has_value());
  EXPECT_FALSE(SlurmTasksOnNode("0", 0).has_value());
  EXPECT_FALSE(SlurmTasksOnNode("4294967295", 0).has_value());
}

TEST_F(SettingsTest, OpenMpiAndPmi) {  // S5
  EXPECT_EQ(*From({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).rank, 1);
  EXPECT_EQ(*From({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).world_size, 2);
}

TEST_F(SettingsTest, RanksOfOneLauncherOnOneNodeAgreeOnARunId) {
  const std::map<std::string, std::string> common = {{"WORLD_SIZE", "2"},
                                                     {"LOCAL_WORLD_SIZE", "2"}};
  auto first = common, second = common;
  first["RANK"] = "0";
  second["RANK"] = "1";
  EXPECT_EQ(internal::Resolve(From(first)).run_id, internal::Resolve(From(second)).run_id);
}

TEST_F(SettingsTest, RanksOfSeveralNodesAgreeByTheirMaster) {
  std::map<std::string, std::string> rank = {{"WORLD_SIZE", "4"},
                                             {"LOCAL_WORLD_SIZE", "2"},
                                             {"RANK", "0"},
                                             {"MASTER_ADDR", "n1"},
                                             {"MASTER_PORT", "29500"}};
  const std::string run_id = internal::Resolve(From(rank)).run_id;
  rank["RANK"] = "3";
  EXPECT_EQ(internal::Resolve(From(rank)).run_id, run_id);
  rank["MASTER_PORT"] = "29501";
  EXPECT_NE(internal::Resolve(From(rank)).run_id, run_id);
}

TEST_F(SettingsTest, HalfASetOfRanksIsAnError) {
  EXPECT_THAT(From({{"RANK", "1"}}).Validate(),
              Contains(AllOf(HasSubstr("RANK"), HasSubstr("WORLD_SIZE"))));
  Settings settings;
  settings.rank = 0;
  EXPECT_THAT(settings.Validate(), SizeIs(1));
}

TEST_F(SettingsTest, ReportsEveryErrorAtOnce) {
  Settings settings = From({{"RANK", "two"},
                            {"WORLD_SIZE", "2"},
                            {"RANKLOG_FLUSH_INTERVAL_MS", "soon"},
                            {"RANKLOG_LOG_STRATEGY", "some"},
                            {"RANKLOG_DESTINATIONS", "wandb,paper"},
                            {"RANKLOG_START_DAEMON", "perhaps"}});
  settings.run_id = "a/b";
  settings.spool_bytes = 1;
  settings.project = "a/b";
  settings.notes = "\xff";
  EXPECT_THAT(settings.Validate(), SizeIs(10));
}

TEST_F(SettingsTest, ContradictoryRanksAreErrors) {  // S5
  Settings settings;
  settings.rank = 2;
  settings.world_size = 2;
  settings.local_rank = 3;
  settings.local_world_size = 3;
  EXPECT_THAT(settings.Validate(), SizeIs(3));
}

TEST_F(SettingsTest, AddressesThatCannotBe) {
  Settings settings;
  settings.address = "unix:/" + std::string(106, 'a');
  EXPECT_THAT(settings.Validate(), IsEmpty());
  settings.address += "a";
  EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr("108 bytes; the system takes 107")));
  settings.address = "tcp:localhost:1";
  EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr("not unix:PATH")));
  settings.address = "unix:relative";
  EXPECT_THAT(settings.Validate(), SizeIs(1));
}

}  // namespace
}  // namespace ranklog
