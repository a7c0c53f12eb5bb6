// The ranks of a group are threads of this process. group_timeout_test.cc uses real processes.

#include "trainer/parallel/process_group.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <future>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/support/dead_port.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "trainer/base/torch_compat.h"
#include "trainer/parallel/rendezvous_error.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ProcessGroupOfThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("GLOO_SOCKET_IFNAME", "lo", 1);
    ASSERT_OK_AND_ASSIGN(HostedStore store, HostedStore::Serve());
    store_.emplace(std::move(store));
    options_.timeout = absl::Seconds(2);
  }
  Rendezvous At(int rank, int world_size) const {
    return {.rank = rank,
            .world_size = world_size,
            .address = "127.0.0.1",
            .port = store_->port(),
            .hosted = true};
  }
  std::future<absl::StatusOr<ProcessGroup>> Join(int rank, int world_size) const {
    return std::async(std::launch::async, [this, rank, world_size] {
      return ProcessGroup::Join(At(rank, world_size), options_);
    });
  }
  // Two connected ranks.
  std::vector<ProcessGroup> Two() const {
    auto second = Join(1, 2);
    absl::StatusOr<ProcessGroup> first = ProcessGroup::Join(At(0, 2), options_);
    absl::StatusOr<ProcessGroup> other = second.get();
    EXPECT_OK(first.status());
    EXPECT_OK(other.status());
    std::vector<ProcessGroup> groups;
    groups.push_back(std::move(*first));
    groups.push_back(std::move(*other));
    return groups;
  }
  // The error of a sum that fails.
  static std::string ErrorOfSum(ProcessGroup& group) {
    at::Tensor value = at::ones({1});
    try {
      group.Sum(value);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  std::optional<HostedStore> store_;
  GroupOptions options_;
};

TEST_F(ProcessGroupOfThreadsTest, HostedStoreListensOnLoopback) {
  const std::string port = absl::StrFormat(":%04X ", store_->port());
  const auto listens = [&](const std::string& table, const std::string& address) {
    return absl::StrContains(ranklog::testing::FileContent(table), " " + address + port);
  };
  const bool loopback = compat::kTakesSocket<c10d::TCPStoreOptions>;  // else all interfaces
  EXPECT_EQ(listens("/proc/self/net/tcp", "0100007F"), loopback);
  EXPECT_EQ(listens("/proc/self/net/tcp", "00000000") ||
                listens("/proc/self/net/tcp6", std::string(32, '0')),
            !loopback);
}

TEST_F(ProcessGroupOfThreadsTest, GroupOfOneConnectsOnRequest) {
  ASSERT_OK_AND_ASSIGN(const ProcessGroup alone, ProcessGroup::Join(At(0, 1), options_));
  EXPECT_EQ(alone.c10d_group(), nullptr);
  options_.connect_alone = true;
  ASSERT_OK_AND_ASSIGN(ProcessGroup connected, ProcessGroup::Join(At(0, 1), options_));
  ASSERT_NE(connected.c10d_group(), nullptr);
  at::Tensor value = at::full({2}, 3.0);
  connected.Sum(value);
  EXPECT_EQ(value[1].item<double>(), 3.0);
  connected.Leave();
}

TEST_F(ProcessGroupOfThreadsTest, NamesRanksThatDoNotConnect) {
  auto second = Join(2, 4);
  EXPECT_THAT(ProcessGroup::Join(At(0, 4), options_).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("ranks 1, 3 of 4 did not connect to 127.0.0.1:")));
  EXPECT_THAT(second.get().status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ranks 1, 3 of 4")));
}

TEST_F(ProcessGroupOfThreadsTest, RefusesSecondProcessOfRank) {
  auto one = Join(1, 2), other = Join(1, 2);
  const std::string errors = absl::StrCat(std::string(one.get().status().message()), "\n",
                                          std::string(other.get().status().message()));
  EXPECT_THAT(errors, AllOf(HasSubstr("another process is rank 1 of the job at 127.0.0.1:"),
                            HasSubstr("rank 0 of 2 did not connect")));
}

TEST_F(ProcessGroupOfThreadsTest, RefusesDifferentWorldSizes) {
  options_.timeout = absl::Minutes(1);  // no rank waits that long
  auto first = Join(0, 2);
  for (const auto& status : {ProcessGroup::Join(At(1, 3), options_).status(), first.get().status()})
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("WORLD_SIZE is ")));
}

TEST_F(ProcessGroupOfThreadsTest, NamesTakenPort) {
  Rendezvous first = At(0, 2);
  first.hosted = false;
  EXPECT_THAT(ProcessGroup::Join(first, options_).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(absl::StrCat("port ", first.port, " is taken"))));
}

TEST_F(ProcessGroupOfThreadsTest, UnreachableStoreErrorNamesCause) {
  Rendezvous at = {.rank = 0, .world_size = 2, .address = "192.0.2.1"};  // for documentation
  at.port = static_cast<uint16_t>(testing::DeadPort(testing::DeadPort::kRefuses).number());
  EXPECT_THAT(ExplainNoStore(at, options_.timeout, "timed out"),
              HasSubstr("MASTER_ADDR must be the host of rank 0, here "));
  at.rank = 1;
  EXPECT_THAT(ExplainNoStore(at, options_.timeout, "The client socket has timed out"),
              AllOf(HasSubstr(absl::StrCat("cannot connect to 192.0.2.1:", at.port, " within 2s")),
                    HasSubstr("check that rank 0 runs"), Not(HasSubstr("timed out"))));
  at.address = std::string(300, 'x');  // too long for a host name
  EXPECT_THAT(ExplainNoStore(at, options_.timeout, ""),
              HasSubstr("cannot resolve MASTER_ADDR=" + at.address));
}

// As with torchrun, if the agent of one node was restarted and counts from 0.
TEST_F(ProcessGroupOfThreadsTest, RankZeroStoreIgnoresAttempts) {
  Rendezvous first = At(0, 2), second = At(1, 2);
  first.port = second.port =
      static_cast<uint16_t>(testing::DeadPort(testing::DeadPort::kRefuses).number());
  first.hosted = second.hosted = false;
  first.attempt = "1";
  auto joined = std::async(std::launch::async, [&] { return ProcessGroup::Join(first, options_); });
  const absl::StatusOr<ProcessGroup> one = ProcessGroup::Join(second, options_);
  const absl::StatusOr<ProcessGroup> other = joined.get();
  EXPECT_OK(one.status());
  EXPECT_OK(other.status());
}

TEST_F(ProcessGroupOfThreadsTest, LauncherStoreSeparatesAttempts) {
  Rendezvous first = At(0, 2), second = At(1, 2);
  first.attempt = "1";
  auto joined = std::async(std::launch::async, [&] { return ProcessGroup::Join(first, options_); });
  EXPECT_FALSE(ProcessGroup::Join(second, options_).ok());
  EXPECT_FALSE(joined.get().ok());
}

TEST_F(ProcessGroupOfThreadsTest, RejectsRanksWithDifferentBackends) {
  auto first = Join(0, 2);
  GroupOptions nccl = options_;
  nccl.placement.nccl = true;
  EXPECT_THAT(ProcessGroup::Join(At(1, 2), nccl).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 uses NCCL, but rank 0 uses Gloo")));
  EXPECT_FALSE(first.get().ok());
}

TEST_F(ProcessGroupOfThreadsTest, NamesLiveRankThatIsLate) {
  std::vector<ProcessGroup> groups = Two();
  const absl::Time start = absl::Now();
  const std::string error = ErrorOfSum(groups[0]);
  EXPECT_NE(error, "");
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_THAT(groups[0].Blame(error),
              AllOf(HasSubstr("rank 1 (pid "), HasSubstr("is alive but late"),
                    HasSubstr("it has begun 0 collectives, this rank 1")));
}

TEST_F(ProcessGroupOfThreadsTest, FailureReasonReachesOtherRanks) {
  std::vector<ProcessGroup> groups = Two();
  EXPECT_EQ(groups[0].Blame("no such corpus"), "");  // no other rank is to blame
  EXPECT_THAT(groups[1].Blame("connection closed"),
              AllOf(HasSubstr("rank 0 (pid "), HasSubstr("failed: no such corpus")));
  try {
    groups[1].FromRankZero("corpus", [] { return std::string(); });
    FAIL() << "it waited for nothing";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("waiting for corpus of rank 0: "),
                                    HasSubstr("failed: no such corpus")));
  }
}

TEST_F(ProcessGroupOfThreadsTest, ReportedFailureIsKnownImmediately) {
  std::vector<ProcessGroup> groups = Two();
  EXPECT_FALSE(store_->HasFailed(0));
  const absl::Time start = absl::Now();
  groups[0].ReportFailure("no such corpus");
  EXPECT_THAT(groups[1].Blame("connection closed"), HasSubstr("failed: no such corpus"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_TRUE(store_->HasFailed(0));
  EXPECT_FALSE(store_->HasFailed(1));
}

TEST_F(ProcessGroupOfThreadsTest, GatherKeepsTheOrderOfRanks) {
  std::vector<ProcessGroup> groups = Two();
  const auto gather = [&](int rank) {
    return groups[rank].Gather(at::full({3}, 200 + rank, at::kByte));
  };
  auto other = std::async(std::launch::async, gather, 1);
  const at::Tensor expected = at::tensor({200, 200, 200, 201, 201, 201}).to(at::kByte).view({2, 3});
  EXPECT_TRUE(gather(0).equal(expected));
  EXPECT_TRUE(other.get().equal(expected));
}

TEST_F(ProcessGroupOfThreadsTest, AnyCombinesAllRanks) {
  std::vector<ProcessGroup> groups = Two();
  for (const bool second : {false, true}) {
    auto other = std::async(std::launch::async, [&] { return groups[1].Any(second); });
    EXPECT_EQ(groups[0].Any(false), second);
    EXPECT_EQ(other.get(), second);
  }
}

TEST_F(ProcessGroupOfThreadsTest, FromRankZeroWaitsPastTimeout) {
  std::vector<ProcessGroup> groups = Two();
  auto made = std::async(std::launch::async, [&] {
    return groups[0].FromRankZero("corpus", [&] {
      absl::SleepFor(2 * options_.timeout);  // the work of rank 0
      return std::string("tokens");
    });
  });
  EXPECT_EQ(groups[1].FromRankZero("corpus", [] { return std::string(); }), "tokens");
  EXPECT_EQ(made.get(), "tokens");
}

}  // namespace
}  // namespace ranklog::trainer
