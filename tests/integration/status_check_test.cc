// `ranklog status --check` fails if rows do not arrive and will not arrive by themselves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/counting_job.h"
#include "tests/support/absent.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

Finished AskStatus(const Node& node, std::vector<std::string> args = {}) {
  args.insert(args.begin(), {RANKLOG_CLI, "status", "--address", node.address()});
  return RunToEnd(args);
}
Finished Check(const Node& node) { return AskStatus(node, {"--check"}); }
void ExpectProblem(const Node& node, const std::string& text) {
  EXPECT_TRUE(WaitFor([&] { return Check(node).code == 1; }));
  EXPECT_THAT(Check(node).output, HasSubstr(text));
}
std::map<std::string, std::string> WithoutKeys(const Node& node) {
  return {{"HOME", node.state_dir()},
          {"XDG_CONFIG_HOME", node.state_dir()},
          {"NETRC", "/nonexistent"},
          {"WANDB_API_KEY", ""}};
}

TEST(StatusCheckTest, RunWithDamagedBatchIsNamed) {
  Node node({"--step-wait", "1h", "--first-row-wait", "1h"});
  node.Start();
  const std::string stop = node.spool_dir() + ".stop";
  // No row is made before the second rank has logged one.
  ChildProcess silent = node.StartRank("job", 1, 1, 2, 2, {"0", "0", "0", stop});
  ChildProcess logging = node.StartRank("job", 0, 0, 2, 2, {"200", "0", "0", stop + "ped"});
  ASSERT_EQ(logging.Wait(), 0) << logging.Output();
  EXPECT_EQ(Check(node).code, 0) << Check(node).output;
  node.Kill();
  node.EditStore("UPDATE stream_batch SET data = zeroblob(length(data))");
  node.Start();
  ExpectProblem(node, "run job is stopped: ");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"status"}, {"runs"}, {"show", "job"}}) {
    std::vector<std::string> words = {RANKLOG_CLI, "--address", node.address()};
    words.insert(words.end(), command.begin(), command.end());
    const Finished told = RunToEnd(words);
    EXPECT_EQ(told.code, 0);
    EXPECT_THAT(told.output, HasSubstr("run job is stopped: ")) << command[0];
  }
}

TEST(StatusCheckTest, DamagedRingIsNamedUntilRemoved) {
  Node node;
  {
    CountingJob counting(node, "job", 20'000);
    ASSERT_TRUE(counting.WaitForReturned(20'000));
    counting.rank().Kill();
  }
  for (const auto& ring : std::filesystem::directory_iterator(node.spool_dir())) {
    std::fstream file(ring.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(300'000);
    file << std::string(4000, '\xff');
  }
  node.Start();
  ExpectProblem(node, "its spool could not be read to its end");
  EXPECT_THAT(Check(node).output, HasSubstr("1 ring set aside as damaged: " + node.spool_dir()));
  const Finished removed =
      RunToEnd({RANKLOG_CLI, "rm", "job", "--force", "--yes", "--address", node.address()});
  ASSERT_EQ(removed.code, 0) << removed.output;
  EXPECT_EQ(Check(node).code, 0) << Check(node).output;
}

TEST(StatusCheckTest, FullDiskIsNamedWhenIdle) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  Node node;
  const SmallDisk disk(node.state_dir(), "3m");
  ASSERT_TRUE(disk.mounted());
  node.Start();
  EXPECT_EQ(Check(node).code, 0) << Check(node).output;
  std::ofstream fill(node.state_dir() + "/fill", std::ios::binary);
  for (int i = 0; i < 1024 && fill; ++i) fill << std::string(4096, 'x') << std::flush;
  ExpectProblem(node, "ranklog: the disk is full\n");
}

TEST(StatusCheckTest, RunWithoutAKeyIsNamed) {
  FakeWandb wandb;
  Node node;
  node.StartWith(WithoutKeys(node));
  auto there = WithoutKeys(node);
  there["WANDB_BASE_URL"] = wandb.url();
  there["RANKLOG_DESTINATIONS"] = "wandb";
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"}, there);
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ExpectProblem(node, "run job waits for wandb: no API key for 127.0.0.1");
}

TEST(StatusCheckTest, RefusedKeyFailsButOutagePasses) {
  FakeWandb wandb;
  wandb.RequireKey(std::string(40, 'k'));
  Node node;
  node.StartWith(WithoutKeys(node));
  const auto run = [&](const std::string& id, const std::string& url) {
    auto there = WandbAt(url);
    there["WANDB_API_KEY"] = std::string(40, 'x');
    ChildProcess rank = node.StartRank(id, 0, 0, 1, 1, {"10"}, there);
    EXPECT_EQ(rank.Wait(), 0) << rank.Output();
    EXPECT_TRUE(WaitFor([&] {
      const auto deliveries = node.Reader()->Deliveries(node.GetRun(id).id);
      return deliveries.ok() && deliveries->size() == 1 && !deliveries->front().last_error.empty();
    }));
  };
  const DeadPort away(DeadPort::kRefuses);
  run("away", away.url());
  EXPECT_EQ(Check(node).code, 0) << Check(node).output;
  run("job", wandb.url());
  ExpectProblem(node, "run job waits for wandb: ");
  EXPECT_THAT(Check(node).output, HasSubstr("HTTP 401"));
}

TEST(StatusCheckTest, RunMissingAtTrackerIsNamed) {
  FakeWandb wandb;
  Node node;
  node.Start();
  auto there = WandbAt(wandb.url());
  there["RANKLOG_RESUME"] = "must";
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"}, there);
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ExpectProblem(node, "run job waits for wandb: resume=must, and the tracker has no run 'job'");
}

TEST(StatusCheckTest, RefusedStartIsNamed) {
  Node node;
  node.Start();
  for (const char* resume : {"allow", "never"}) {
    EXPECT_EQ(Check(node).code, 0) << Check(node).output;
    ChildProcess rank = node.StartRank(
        "job", 0, 0, 1, 1, {"10"}, {{"RANKLOG_RESUME", resume}, {"RANKLOG_DESTINATIONS", "local"}});
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  }
  ExpectProblem(node, "run job-2 was refused and is kept on this node only; to upload it, run `" +
                          ("ranklog --address " + node.address()) + " sync job-2 --to wandb`");
}

}  // namespace
}  // namespace ranklog::testing
