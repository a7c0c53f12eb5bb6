// A job moves to another node, as when it is requeued. The daemons of both nodes feed the same run
// at the tracker, one after the other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kFirstStepOnB = 1'000'000;  // identifies the lines of node b
constexpr int kRowsOnB = 200;

class MovedJobTest : public ::testing::Test {
 protected:
  MovedJobTest() { wandb_.ExpectSeveralStores(); }

  // Runs a job on the first node. The tracker takes some of its rows and not the rest. Then the
  // node and the job die.
  void RunOnFirstNode() {
    wandb_.RequireKey(key_);
    a_.Start();
    ChildProcess rank =
        a_.StartRank("job", 0, 0, 1, 1, {"1000000", "0", "500"}, WandbAt(wandb_.url()));
    ASSERT_TRUE(WaitFor([&] { return wandb_.run("job").history.size() >= 500; }));
    wandb_.RequireKey("none");
    // A post may be in flight, whose lines then arrive.
    ASSERT_TRUE(WaitFor([&] { return a_.GetRun("job").rows >= Lines() + 300; }));
    a_.Kill();
    rank.Kill();
    wandb_.RequireKey(key_);
    delivered_ = Lines();
  }
  size_t Lines() const { return wandb_.run("job").history.size(); }
  ChildProcess StartOnSecondNode(int rows) {
    return b_.StartRank("job", 0, 0, 1, 1,
                        {std::to_string(rows), "0", "500", "", std::to_string(kFirstStepOnB)},
                        WandbAt(wandb_.url()));
  }
  static bool Delivered(const Node& node) {
    const auto deliveries = node.Reader()->Deliveries(node.GetRun("job").id);
    return deliveries.ok() && deliveries->size() == 1 && deliveries->front().complete;
  }
  // Checks the order of the lines: the rows that the first node delivered, the second node's rows,
  // then the rest of the first node's.
  void ExpectEveryRowOnce() {
    EXPECT_THAT(wandb_.errors(), IsEmpty());
    const FakeWandb::Run run = wandb_.run("job");
    const size_t rows_on_a = a_.GetRun("job").rows;
    ASSERT_GE(rows_on_a, delivered_ + 300);
    ASSERT_THAT(run.history, SizeIs(rows_on_a + kRowsOnB));
    for (size_t line = 0; line < run.history.size(); ++line) {
      const bool on_b = line >= delivered_ && line < delivered_ + kRowsOnB;
      const size_t row = line < delivered_ ? line : line - (on_b ? delivered_ : kRowsOnB);
      const size_t step = row + (on_b ? kFirstStepOnB : 0);
      ASSERT_EQ(ParseExtendedJson(run.history[line])["loss"], step) << line;
    }
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(ParseExtendedJson(run.summary)["_step"], kFirstStepOnB + kRowsOnB - 1);
  }

  const std::string key_ = std::string(40, 'k');
  const std::map<std::string, std::string> environment_ = {{"WANDB_API_KEY", key_}};
  FakeWandb wandb_;
  Node a_{{"--transmit-interval", "20ms"}, environment_};
  Node b_{{"--transmit-interval", "20ms"}, environment_};
  size_t delivered_ = 0;
};

TEST_F(MovedJobTest, FirstNodesRowsFollowTheSeconds) {  // S47
  ASSERT_NO_FATAL_FAILURE(RunOnFirstNode());
  b_.Start();
  ChildProcess rank = StartOnSecondNode(kRowsOnB);
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return b_.RunHasEnded("job") && Delivered(b_); }));
  a_.Start();  // for another job, for example
  ASSERT_TRUE(WaitFor([&] { return a_.RunHasEnded("job") && Delivered(a_); }));
  ExpectEveryRowOnce();
  for (const Node* node : {&a_, &b_}) {
    ChildProcess::Options options;
    options.environment = environment_;
    const Finished verify =
        RunToEnd({RANKLOG_CLI, "verify", "job", "--state-dir", node->state_dir()}, options);
    EXPECT_EQ(verify.code, 0) << verify.output;
  }
}

// A job continues from a checkpoint at another node, whose store has nothing of it.
class ResumedElsewhereTest : public MovedJobTest {
 protected:
  // Logs rows at that node, and waits until the tracker has them.
  void Run(Node& node, const std::vector<std::string>& args) {
    std::map<std::string, std::string> settings = WandbAt(wandb_.url());
    settings["RANKLOG_RESUME"] = "allow";
    node.Start();
    ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, args, settings);
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job") && Delivered(node); }));
  }
  void ExpectStepsUpTo(int last) {
    EXPECT_THAT(wandb_.errors(), IsEmpty());
    const FakeWandb::Run run = wandb_.run("job");
    ASSERT_THAT(run.history, SizeIs(last + 1));
    for (int step = 0; step <= last; ++step) {
      ASSERT_EQ(ParseExtendedJson(run.history[static_cast<size_t>(step)])["_step"], step);
    }
    EXPECT_TRUE(run.complete);
    const json summary = ParseExtendedJson(run.summary);
    EXPECT_EQ(summary["_step"], last);
    EXPECT_FALSE(summary.contains("ranklog/rows_lost"));
  }
  json Ranklog(const Node& node, std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--json", "--state-dir", node.state_dir()});
    ChildProcess::Options options;
    options.environment = environment_;
    const Finished finished = RunToEnd(args, options);
    EXPECT_EQ(finished.code, 0) << finished.output;
    return json::parse(finished.output);
  }
};

TEST_F(ResumedElsewhereTest, ReplaysAreNotSentTwice) {  // S47
  ASSERT_NO_FATAL_FAILURE(Run(a_, {"100"}));
  ASSERT_NO_FATAL_FAILURE(Run(b_, {"71", "0", "0", "", "80"}));
  ExpectStepsUpTo(150);

  const json run = Ranklog(b_, {"runs"})[0];
  EXPECT_EQ(run["rows"], 71);
  EXPECT_EQ(run["late_rows"], 0);
  EXPECT_EQ(run["ranks"][0]["lost"], 0);
  const json& destination = run["destinations"][0];
  EXPECT_EQ(destination["delivered_rows"], 51);
  EXPECT_EQ(destination["replayed_rows"], 20);
  EXPECT_EQ(destination["pending_rows"], 0);
  EXPECT_EQ(destination["refused_rows"], 0);
  const json report = Ranklog(b_, {"verify", "job"});
  EXPECT_EQ(report["sum"]["placed"], 71);
  EXPECT_EQ(report["destinations"][0]["sent"], 51);
  EXPECT_EQ(report["destinations"][0]["there"], 51);
  EXPECT_EQ(report["destinations"][0]["replayed_rows"], 20);
  EXPECT_EQ(report["destinations"][0]["base_lines"], 100);
  EXPECT_EQ(report["destinations"][0]["summary"]["compared"], true);
}

TEST_F(ResumedElsewhereTest, RowsWithoutAStepCountOn) {  // S47
  ASSERT_NO_FATAL_FAILURE(Run(a_, {"30", "0", "0", "", "none"}));
  ASSERT_NO_FATAL_FAILURE(Run(b_, {"20", "0", "0", "", "none"}));
  ExpectStepsUpTo(49);
  EXPECT_EQ(Ranklog(b_, {"verify", "job"})["destinations"][0]["there"], 20);
}

}  // namespace
}  // namespace ranklog::testing
