// Ranks that die or hang, as real processes. No launcher ends the others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/without_daemon.h"
#include "trainer/parallel/process_group.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::WaitFor;
using ::ranklog::testing::WithoutDaemon;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kWorld = 3;
constexpr absl::Duration kTimeout = absl::Seconds(5);

class GroupTimeoutTest : public ::testing::Test {
 protected:
  void StartAtAHostedStore() {
    ASSERT_OK_AND_ASSIGN(HostedStore store, HostedStore::Serve());
    store_.emplace(std::move(store));
    StartAll(std::to_string(store_->port()));
  }
  void StartAll(const std::string& port) {
    port_ = port;
    for (int rank = 0; rank < kWorld; ++rank) ranks_.push_back(Start(rank));
    ASSERT_TRUE(WaitFor([&] { return ranks_[0].Output().find("step ") != std::string::npos; }))
        << ranks_[0].Output();
  }
  std::string ErrorFile(int rank) const { return dir_.File("error." + std::to_string(rank)); }
  ChildProcess Start(int rank, const std::string& interface = "lo") {
    ChildProcess::Options options = WithoutDaemon(dir_);
    const std::string number = std::to_string(rank), world = std::to_string(kWorld);
    options.environment.insert({{"RANK", number},
                                {"LOCAL_RANK", number},
                                {"WORLD_SIZE", world},
                                {"LOCAL_WORLD_SIZE", world},
                                {"GROUP_RANK", "0"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", port_},
                                {"TORCHELASTIC_USE_AGENT_STORE", store_ ? "True" : "False"},
                                {"TORCHELASTIC_ERROR_FILE", ErrorFile(rank)},
                                {"GLOO_SOCKET_IFNAME", interface}});
    return ChildProcess(
        {RANKLOG_TRAIN, "--steps", "1000000", "--seq-len", "16", "--batch-size", "1", "--val-every",
         "0", "--group-timeout", std::to_string(absl::ToInt64Seconds(kTimeout))},
        options);
  }
  // The others end by themselves, and blame rank 1 in their error files.
  void ExpectOthersBlameRank1(absl::Duration within) {
    const absl::Time start = absl::Now();
    for (const int rank : {0, 2}) {
      EXPECT_EQ(ranks_[rank].Wait(within), 1) << ranks_[rank].Output();
      const std::string expected = "rank 1 (pid " + std::to_string(ranks_[1].pid()) + " on ";
      EXPECT_THAT(
          ranks_[rank].Output(),
          AllOf(HasSubstr(expected), ContainsRegex("its last heartbeat is [0-9]+\\.[0-9] s old")));
      const auto error = nlohmann::json::parse(testing::FileContent(ErrorFile(rank)), nullptr,
                                               /*allow_exceptions=*/false);
      ASSERT_TRUE(error.is_object()) << "rank " << rank;
      EXPECT_THAT(error["message"]["message"].get<std::string>(), HasSubstr(expected));
    }
    EXPECT_LT(absl::Now() - start, within);
  }

  ranklog::testing::TempDir dir_;
  std::optional<HostedStore> store_;  // unset: rank 0 serves the store
  std::string port_;
  std::vector<ChildProcess> ranks_;
};

TEST_F(GroupTimeoutTest, OtherRanksNameKilledRank) {  // S33
  StartAtAHostedStore();
  ranks_[1].Kill();
  ExpectOthersBlameRank1(absl::Seconds(20));
}

TEST_F(GroupTimeoutTest, OtherRanksNameHangingRank) {  // S33
  StartAtAHostedStore();
  ranks_[1].Signal(SIGSTOP);
  ExpectOthersBlameRank1(kTimeout + absl::Seconds(20));
}

// The rank fails after the rendezvous, when the others wait for its connection.
TEST_F(GroupTimeoutTest, OtherRanksNameRankWithoutConnection) {
  ASSERT_OK_AND_ASSIGN(HostedStore store, HostedStore::Serve());
  store_.emplace(std::move(store));
  port_ = std::to_string(store_->port());
  for (int rank = 0; rank < kWorld; ++rank)
    ranks_.push_back(Start(rank, rank == 1 ? "nosuch0" : "lo"));
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ranks_[rank].Wait(kTimeout + absl::Seconds(20)), 1) << ranks_[rank].Output();
    EXPECT_THAT(ranks_[rank].Output(),
                AllOf(HasSubstr("rank 1 (pid " + std::to_string(ranks_[1].pid()) + " on "),
                      HasSubstr(" failed: "), HasSubstr("nosuch0"), Not(HasSubstr("frame #"))));
  }
}

// As with mpirun and srun, where the store ends with rank 0.
TEST_F(GroupTimeoutTest, LostStoreErrorNamesRankZero) {
  const uint16_t port = ranklog::testing::DeadPort(ranklog::testing::DeadPort::kRefuses).number();
  StartAll(std::to_string(port));
  ranks_[0].Kill();
  for (const int rank : {1, 2}) {
    EXPECT_EQ(ranks_[rank].Wait(absl::Seconds(20)), 1) << ranks_[rank].Output();
    EXPECT_THAT(ranks_[rank].Output(), HasSubstr(": the rendezvous store of rank 0"));
  }
}

}  // namespace
}  // namespace ranklog::trainer
