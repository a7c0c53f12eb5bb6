// The ranks of a job, as each launcher's variables give them, and the mistakes in them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "client/launch/resolve.h"
#include "client/settings/environment.h"
#include "client/settings/validate.h"
#include "ranklog/settings.h"
#include "tests/client/settings_fixture.h"

namespace ranklog {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using RankSettingsTest = ::ranklog::testing::SettingsTest;

TEST_F(RankSettingsTest, TorchrunVariablesSetRanks) {  // S5
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

// All of them have local rank 0, which is the first rank of a node with that many ranks.
TEST_F(RankSettingsTest, LocalWorldSizeRequiresLocalRank) {
  const Settings settings = internal::Resolve(From(
      {{"RANKLOG_RANK", "3"}, {"RANKLOG_WORLD_SIZE", "4"}, {"RANKLOG_LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_EQ(*settings.local_rank, 0);
  EXPECT_FALSE(settings.local_world_size.has_value());
}

TEST_F(RankSettingsTest, SlurmCountsOnlyInAStep) {  // S5
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

TEST_F(RankSettingsTest, SlurmTaskCountsAreParsed) {
  using internal::SlurmTasksOnNode;
  EXPECT_EQ(SlurmTasksOnNode("2(x3),1", 0), 2);
  EXPECT_EQ(SlurmTasksOnNode("2(x3),1", 2), 2);
  EXPECT_EQ(SlurmTasksOnNode("2(x3),1", 3), 1);
  EXPECT_FALSE(SlurmTasksOnNode("2(x3),1", 4).has_value());
  EXPECT_FALSE(SlurmTasksOnNode("many", 0).has_value());
  EXPECT_FALSE(SlurmTasksOnNode("0", 0).has_value());
  EXPECT_FALSE(SlurmTasksOnNode("4294967295", 0).has_value());
}

TEST_F(RankSettingsTest, OpenMpiAndPmiSetRanks) {  // S5
  EXPECT_EQ(*From({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).rank, 1);
  EXPECT_EQ(*From({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).world_size, 2);
}

TEST_F(RankSettingsTest, SingleNodeRanksShareRunId) {
  const std::map<std::string, std::string> common = {{"WORLD_SIZE", "2"},
                                                     {"LOCAL_WORLD_SIZE", "2"}};
  auto first = common, second = common;
  first["RANK"] = "0";
  second["RANK"] = "1";
  EXPECT_EQ(internal::Resolve(From(first)).run_id, internal::Resolve(From(second)).run_id);
}

TEST_F(RankSettingsTest, SameMasterGivesSameRunId) {
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

TEST_F(RankSettingsTest, RankWithoutWorldSizeIsError) {
  constexpr char kReplaced[] = "; this process counts as rank 0 of 1";
  EXPECT_THAT(
      From({{"RANK", "1"}}).Validate(),
      ElementsAre(std::string("RANK is set but WORLD_SIZE is not; set both or none") + kReplaced));
  EXPECT_THAT(From({{"WORLD_SIZE", "4"}}).Validate(), ElementsAre(EndsWith(kReplaced)));
  EXPECT_THAT(From({{"RANK", "-1"}}).Validate(),
              ElementsAre(std::string("RANK=-1 is not a non-negative integer") + kReplaced,
                          HasSubstr("WORLD_SIZE is not")));
  Settings settings;
  settings.rank = 0;
  EXPECT_THAT(settings.Validate(), SizeIs(1));
}

TEST_F(RankSettingsTest, UnreadableRankIsOneMistake) {
  const Settings negative = From({{"RANK", "-1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "-1"}});
  EXPECT_THAT(negative.Validate(), ElementsAre("RANK=-1 is not a non-negative integer; this "
                                               "process counts as rank 0 of 1"));
  const Settings world = From({{"RANK", "3"}, {"WORLD_SIZE", "4x"}, {"LOCAL_WORLD_SIZE", "8"}});
  EXPECT_THAT(world.Validate(), ElementsAre("WORLD_SIZE=4x is not a non-negative integer; this "
                                            "process counts as rank 3 of 4"));
  EXPECT_EQ(world.rank, 3);  // its rows are stored under it
  Settings settings;
  settings.rank = -1;
  settings.world_size = 4;
  EXPECT_THAT(settings.Validate(), ElementsAre("rank -1 is negative; Init() uses rank 0 of 4"));
  const Settings both = From({{"RANK", "x"}, {"WORLD_SIZE", "y"}});
  EXPECT_THAT(both.Validate(), ElementsAre(EndsWith("; this process counts as rank 0 of 1"),
                                           EndsWith("; this process counts as rank 0 of 1")));
}

TEST_F(RankSettingsTest, UnreadableLocalRankCountsAsUnset) {
  const Settings settings = From({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "one"}});
  EXPECT_THAT(settings.Validate(),
              ElementsAre("LOCAL_RANK=one is not a non-negative integer; it counts as unset"));
  EXPECT_FALSE(settings.local_rank.has_value());
}

// Scripts may set LOCAL_RANK for their own use. RANKLOG_* are for us only.
TEST_F(RankSettingsTest, OnlyPartialRanklogVariablesAreErrors) {
  const std::map<std::string, std::string> torchrun = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}};
  for (const char* part : {"RANKLOG_LOCAL_RANK", "RANKLOG_NODE_RANK", "RANKLOG_LOCAL_WORLD_SIZE"}) {
    std::map<std::string, std::string> variables = torchrun;
    variables[part] = "0";
    const Settings settings = From(variables);
    EXPECT_THAT(settings.Validate(),
                ElementsAre(AllOf(HasSubstr(part), HasSubstr("RANKLOG_WORLD_SIZE"))));
    EXPECT_EQ(settings.local_rank, 1);
  }
  EXPECT_THAT(From({{"LOCAL_RANK", "1"}}).Validate(), IsEmpty());
}

TEST_F(RankSettingsTest, LargestRankGetsValidWorldSize) {
  const Settings repaired = internal::Repair(From({{"RANK", "2147483647"}, {"WORLD_SIZE", "4"}}));
  EXPECT_THAT(repaired.Validate(), IsEmpty());
}

TEST_F(RankSettingsTest, ContradictoryRanksAreErrors) {  // S5
  Settings settings;
  settings.rank = 2;
  settings.world_size = 2;
  settings.local_rank = 3;
  settings.local_world_size = 3;
  EXPECT_THAT(settings.Validate(),
              ElementsAre(EndsWith("; Init() uses rank 2 of 3"),
                          EndsWith("; Init() ignores local_rank, local_world_size and node_rank"),
                          EndsWith("; Init() ignores local_rank, local_world_size and node_rank")));
  EXPECT_FALSE(internal::Repair(settings).local_rank.has_value());
}

}  // namespace
}  // namespace ranklog
