// All forms of deploy/container.md, in namespaces. When a container ends, its processes and its
// /dev/shm are gone.

#include "tests/support/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/integration/counting_job.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::SizeIs;

constexpr int kContainerRows = 2000;

class ContainerTest : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT(HasContainers(), "namespaces of this kernel"); }

  ChildProcess::Options RankWithADaemonInside() const {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
    options.environment.merge(WandbAt(wandb_.url()));
    options.environment["RANKLOG_START_DAEMON"] = "1";
    options.environment["RANKLOG_DAEMON"] = RANKLOGD;
    options.environment["RANKLOG_STATE_DIR"] = node_.state_dir();
    options.environment["RANKLOG_SPOOL_DIR"] = "";
    return options;
  }

  void ExpectEveryRowOnce(const std::string& job) {
    const FakeWandb::Run run = wandb_.run(job);
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.repeated_lines, 0u);
    ASSERT_THAT(run.history, SizeIs(kContainerRows));
    for (int step = 0; step < kContainerRows; ++step) {
      ASSERT_EQ(ParseExtendedJson(run.history[step])["_step"], step);
    }
  }

  FakeWandb wandb_;
  Node node_;
};

TEST_F(ContainerTest, KillWithDaemonOutsideLosesNothing) {  // S43
  node_.Start();
  CountingJob counting(node_, "job", kContainerRows,
                       {{"RANKLOG_SPOOL_DIR", ""}, {"RANKLOG_FLUSH_INTERVAL_MS", "60000"}},
                       InContainer());
  ASSERT_TRUE(counting.WaitForReturned(kContainerRows)) << counting.rank().Output();
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("ingest.attaches") == 1; }));
  counting.rank().Kill();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  counting.ExpectEveryReturnedRowOnce();
}

TEST_F(ContainerTest, DaemonInsideDeliversDuringFinalSync) {  // S43
  ChildProcess::Options options = RankWithADaemonInside();
  const Finished container = RunToEnd(
      InContainer({"sh", "-c", "\"$1\" \"$2\"; code=$?; \"$3\" sync --timeout 30s; exit $code",
                   "sh", LOGGING_RANK, std::to_string(kContainerRows), RANKLOG_CLI}),
      options);
  EXPECT_EQ(container.code, 0) << container.output;
  ExpectEveryRowOnce("job");
}

TEST_F(ContainerTest, DaemonInsideDeliversBeforeRunEnds) {  // S43
  ChildProcess::Options options = RankWithADaemonInside();
  options.environment["RANKLOG_FINISH"] = "delivered:30s";
  std::vector<std::string> command = InContainer();
  command.insert(command.end(), {LOGGING_RANK, std::to_string(kContainerRows)});
  const Finished container = RunToEnd(command, options);
  EXPECT_EQ(container.code, 0) << container.output;
  ExpectEveryRowOnce("job");
}

// Delivers what a container that has ended left on its volume.
TEST_F(ContainerTest, SyncOnSameVolumeDeliversRest) {  // S43
  ChildProcess::Options options = RankWithADaemonInside();
  options.environment["RANKLOG_TRANSMIT_INTERVAL"] = "1h";
  const Finished first =
      RunToEnd(InContainer({LOGGING_RANK, std::to_string(kContainerRows)}), options);
  EXPECT_EQ(first.code, 0) << "durable";
  const Finished rest = RunToEnd(InContainer({RANKLOG_CLI, "sync", "--timeout", "30s"}), options);
  EXPECT_EQ(rest.code, 0) << rest.output;
  ExpectEveryRowOnce("job");
}

}  // namespace
}  // namespace ranklog::testing
