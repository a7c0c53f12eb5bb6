// `ranklog status` with a real daemon: what it shows of ranks and trackers. S37.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/clock.h"
#include "tests/integration/counting_job.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Finished RunStatus(const Node& node, std::vector<std::string> args = {}) {
  args.insert(args.begin(), {RANKLOG_CLI, "status", "--address", node.address()});
  return RunToEnd(args);
}
nlohmann::json StatusOf(const Node& node) {
  return nlohmann::json::parse(RunStatus(node, {"--json"}).output);
}

TEST(StatusTest, RanksAndTheirRowsAreSeen) {
  Node node;
  node.Start();
  const std::string stop = node.state_dir() + "/stop";
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"100000", "0", "1000", stop});
  nlohmann::json daemon;
  ASSERT_TRUE(WaitFor([&] {
    daemon = StatusOf(node)["daemon"];
    return daemon["rows_per_second"] > 0;
  }));
  EXPECT_EQ(daemon["live_jobs"], 1);
  EXPECT_EQ(daemon["live_ranks"], 1);
  EXPECT_THAT(RunStatus(node).output,
              AllOf(HasSubstr("ranks   1 of 1 job attached, "), HasSubstr(" rows/s\n"),
                    HasSubstr("lost    ring_full ")));
  std::ofstream(stop).close();
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
}

TEST(StatusTest, LastSuccessAndErrorAreShown) {
  FakeWandb wandb;
  wandb.Inject({.on = FakeWandb::Fault::On::kAny, .times = 1, .code = 503});
  Node node;
  node.Start();
  const double before = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"100"}, WandbAt(wandb.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  nlohmann::json status;
  ASSERT_TRUE(WaitFor([&] {
    status = StatusOf(node);
    // The store has the count before the daemon notes the success.
    return status["rows"]["delivered"] == 100 && status["destinations"].size() == 1 &&
           !status["destinations"][0]["last_success"].is_null();
  })) << status;
  const auto& seen = status["destinations"][0];
  EXPECT_GE(seen["last_success"], before);
  EXPECT_GE(seen["last_failure"], before);
  EXPECT_LE(seen["last_failure"], seen["last_success"]);
  EXPECT_THAT(seen["last_failure_error"], HasSubstr("503"));
  EXPECT_EQ(seen["last_error"], "") << "it is over";
  const Finished check = RunStatus(node, {"--check"});
  EXPECT_EQ(check.code, 0) << check.output;
  EXPECT_THAT(check.output, AllOf(HasSubstr("wandb failed "), HasSubstr(" ago")));
}

TEST(StatusTest, CheckFailsWhileStoreFails) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  Node node;
  const SmallDisk disk(node.state_dir(), "8m");
  ASSERT_TRUE(disk.mounted());
  node.Start();
  EXPECT_EQ(RunStatus(node, {"--check"}).code, 0);
  // The rows are not delivered, so they fill the disk.
  CountingJob counting(node, "job", /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "1048576"}});
  ASSERT_TRUE(WaitFor([&] { return node.Counter("store.failing") == 1; }));
  const Finished check = RunStatus(node, {"--check"});
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.output, HasSubstr("ranklog: the daemon cannot store rows"));
}

}  // namespace
}  // namespace ranklog::testing
