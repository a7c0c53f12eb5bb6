// The forms of deploy/container.md, in namespaces: a container that ends takes its processes and
// its /dev/shm with it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/integration/counting_job.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::SizeIs;

constexpr int kContainerRows = 2000;

// A command as process 1 of a container: its end is the end of all.
std::vector<std::string> InContainer() {
  return {"unshare",
          "--mount",
          "--pid",
          "--fork",
          "--kill-child",
          "--mount-proc",
          "sh",
          "-c",
          "mount -t tmpfs -o size=64m none /dev/shm && mount -t tmpfs none /var/tmp && exec \"$@\"",
          "sh"};
}

class ContainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> probe = InContainer();
    probe.push_back("true");
    SKIP_WITHOUT(RunToEnd(probe).code == 0, "namespaces of this kernel");
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

TEST_F(ContainerTest, WithTheDaemonOutsideItMayBeKilled) {
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

TEST_F(ContainerTest, WithTheDaemonInsideSyncIsItsLastCommand) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
  options.environment.merge(WandbAt(wandb_.url()));
  options.environment["RANKLOG_START_DAEMON"] = "1";
  options.environment["RANKLOG_DAEMON"] = RANKLOGD;
  options.environment["RANKLOG_STATE_DIR"] = node_.state_dir();
  options.environment["RANKLOG_SPOOL_DIR"] = "";
  std::vector<std::string> command = InContainer();
  command.insert(command.end(),
                 {"sh", "-c", "\"$1\" \"$2\"; code=$?; \"$3\" sync --timeout 30s; exit $code", "sh",
                  LOGGING_RANK, std::to_string(kContainerRows), RANKLOG_CLI});
  const Finished container = RunToEnd(command, options);
  EXPECT_EQ(container.code, 0) << container.output;
  ExpectEveryRowOnce("job");
}

// What a killed container left on its volume.
TEST_F(ContainerTest, TheNextOneWithItsVolumeDeliversTheRest) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
  options.environment.merge(WandbAt("http://127.0.0.1:1"));
  options.environment["WANDB_BASE_URL"] = wandb_.url();
  options.environment["RANKLOG_WANDB_TRANSMIT_INTERVAL"] = "1h";
  options.environment["RANKLOG_START_DAEMON"] = "1";
  options.environment["RANKLOG_DAEMON"] = RANKLOGD;
  options.environment["RANKLOG_STATE_DIR"] = node_.state_dir();
  options.environment["RANKLOG_SPOOL_DIR"] = "";
  std::vector<std::string> first = InContainer();
  first.insert(first.end(), {LOGGING_RANK, std::to_string(kContainerRows)});
  EXPECT_EQ(RunToEnd(first, options).code, 0) << "durable";
  std::vector<std::string> second = InContainer();
  second.insert(second.end(), {RANKLOG_CLI, "sync", "--timeout", "30s"});
  const Finished rest = RunToEnd(second, options);
  EXPECT_EQ(rest.code, 0) << rest.output;
  ExpectEveryRowOnce("job");
}

}  // namespace
}  // namespace ranklog::testing
