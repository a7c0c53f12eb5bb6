// Which node a rank takes for that of rank 0.

#include "client/launch/home.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "client/launch/resolve.h"
#include "client/settings/peer_address.h"
#include "tests/client/settings_fixture.h"

namespace ranklog {
namespace {

using ::testing::ElementsAre;

using Variables = std::map<std::string, std::string>;

class HomeTest : public ::ranklog::testing::SettingsTest {
 protected:
  std::string Home(const Variables& variables) {
    return internal::FindHome(internal::Resolve(From(variables)));
  }
  // `variables` and those of a rank on the second of two nodes.
  std::string HomeUnderTorchrun(Variables variables) {
    variables.merge(Variables{{"RANK", "2"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_RANK", "0"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"GROUP_RANK", "1"}});
    return Home(variables);
  }
  std::string HomeUnderSlurm(Variables variables) {
    variables.merge(Variables{{"SLURM_JOB_ID", "7"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_PROCID", "2"},
                              {"SLURM_STEP_NUM_TASKS", "4"},
                              {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_NODEID", "1"},
                              {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}});
    return Home(variables);
  }
};

TEST_F(HomeTest, UserVariableCountsFirst) {
  EXPECT_EQ(HomeUnderTorchrun({{"RANKLOG_PEER", "node9:4000"}, {"MASTER_ADDR", "node1"}}),
            "node9:4000");
  EXPECT_EQ(Home({{"RANKLOG_PEER", "localhost:4000"}}), "localhost:4000")
      << "the user may have a tunnel";
}

TEST_F(HomeTest, WrongUserVariableIsReportedAndIgnored) {
  EXPECT_THAT(From({{"RANKLOG_PEER", "node 1"}}).environment_errors,
              ElementsAre("RANKLOG_PEER=node 1 is not HOST or HOST:PORT; it counts as unset (the "
                          "launcher's variables)"));
  EXPECT_EQ(HomeUnderTorchrun({{"RANKLOG_PEER", "node 1"}, {"MASTER_ADDR", "node1"}}), "node1");
}

TEST_F(HomeTest, TorchrunNamesMaster) {
  EXPECT_EQ(HomeUnderTorchrun({{"MASTER_ADDR", "node1.cluster"}}), "node1.cluster");
  EXPECT_EQ(HomeUnderTorchrun({{"MASTER_ADDR", "10.0.0.1"}}), "10.0.0.1");
  EXPECT_EQ(HomeUnderTorchrun({{"MASTER_ADDR", "fd00::1"}}), "[fd00::1]");
  EXPECT_EQ(HomeUnderTorchrun({}), "");
  EXPECT_EQ(HomeUnderTorchrun({{"MASTER_ADDR", "tcp://node1"}}), "") << "not a host";
}

TEST_F(HomeTest, OneNodeHasNoHome) {
  EXPECT_EQ(Home({{"MASTER_ADDR", "node1"}}), "") << "one process";
  EXPECT_EQ(HomeUnderTorchrun({{"MASTER_ADDR", "node1"}, {"LOCAL_WORLD_SIZE", "4"}}), "");
  EXPECT_EQ(HomeUnderSlurm({{"SLURM_STEP_TASKS_PER_NODE", "4"},
                            {"SLURM_NODEID", "0"},
                            {"SLURM_STEP_NODELIST", "node02"},
                            {"SLURM_JOB_NODELIST", "node[01-02]"}}),
            "");
}

// Many scripts set MASTER_ADDR=localhost for a job on one node, and later get another node.
TEST_F(HomeTest, LoopbackCountsAsUnknown) {
  for (const char* own : {"localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "0.0.0.0"}) {
    EXPECT_EQ(HomeUnderTorchrun({{"MASTER_ADDR", own}}), "") << own;
    EXPECT_EQ(HomeUnderSlurm({{"MASTER_ADDR", own}, {"SLURM_STEP_NODELIST", "node[02,05]"}}),
              "node02")
        << own;
  }
  EXPECT_FALSE(internal::IsOwnHost("127.example.com"));
}

TEST_F(HomeTest, SlurmListNamesFirstNode) {
  EXPECT_EQ(HomeUnderSlurm(
                {{"SLURM_STEP_NODELIST", "node[02,05]"}, {"SLURM_JOB_NODELIST", "node[01-05]"}}),
            "node02");
  EXPECT_EQ(HomeUnderSlurm({{"SLURM_JOB_NODELIST", "node[01-05]"}}), "node01");
  EXPECT_EQ(HomeUnderSlurm({}), "10.0.0.9");
  EXPECT_EQ(HomeUnderSlurm({{"MASTER_ADDR", "node5"}, {"SLURM_STEP_NODELIST", "node[02,05]"}}),
            "node5")
      << "torchrun may give rank 0 to any node";
}

// Such as one srun per node, each with its torchrun.
TEST_F(HomeTest, StepOfOneNodeDoesNotNameHome) {
  EXPECT_EQ(
      HomeUnderSlurm({{"SLURM_STEP_NODELIST", "node05"}, {"SLURM_JOB_NODELIST", "node[02,05]"}}),
      "node02");
  EXPECT_EQ(HomeUnderSlurm({{"SLURM_STEP_NODELIST", "node05"}, {"SLURM_JOB_NODELIST", "node05"}}),
            "");
}

TEST(FirstHostTest, ReadsSlurmLists) {
  const std::pair<const char*, const char*> lists[] = {{"node01", "node01"},
                                                       {"node01,node02", "node01"},
                                                       {"node[01-04,07]", "node01"},
                                                       {"node[7,9],gpu[1-2]", "node7"},
                                                       {"a[1-2]b[3-4]", "a1b3"},
                                                       {"gpu-[001-128].site", "gpu-001.site"},
                                                       {"rack[0-1]n[00-17],x", "rack0n00"}};
  for (const auto& [list, first] : lists) EXPECT_EQ(internal::FirstHost(list), first) << list;
  for (const char* broken : {"", "node[1", "node]1", "node[[1]]", ",node"}) {
    EXPECT_EQ(internal::FirstHost(broken), "") << broken;
  }
}

TEST(PeerAddressTest, HasHostAndPerhapsPort) {
  for (const char* good :
       {"a", "node-1.x_y:1", "10.0.0.1:65535", "[fd00::1]", "[fe80::1%eth0]:9"}) {
    EXPECT_TRUE(internal::IsPeerAddress(good)) << good;
  }
  for (const char* bad : {"", ":1", "a:", "a:0", "a:65536", "a:b", "fd00::1", "[fd00::1", "[]:1",
                          "a b", "a/b", "u@a", "[a]b", "\xff"}) {
    EXPECT_FALSE(internal::IsPeerAddress(bad)) << bad;
  }
  EXPECT_FALSE(internal::IsPeerAddress(std::string(254, 'a')));
}

}  // namespace
}  // namespace ranklog
