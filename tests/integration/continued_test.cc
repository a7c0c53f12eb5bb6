// A run that another start of its job continues. Rows that are logged again from a checkpoint
// replace the old rows. The steps of rows without a step continue. Nothing is late or lost. S31,
// S41.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kBack = 20;  // the checkpoint is this many steps before the crash

class ContinuedTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  std::map<std::string, std::string> Settings() const {
    std::map<std::string, std::string> settings = WandbAt(wandb_.url());
    settings["RANKLOG_RESUME"] = "allow";
    return settings;
  }
  ChildProcess Start(std::vector<std::string> args) const {
    return node_.StartRank("job", 0, 0, 1, 1, std::move(args), Settings());
  }
  // Waits until the whole run is delivered and has this many streams.
  void AwaitEnd(uint64_t streams) const {
    EXPECT_TRUE(WaitFor([&] {
      const model::Run run = node_.GetRun("job");
      const auto deliveries = node_.Reader()->Deliveries(run.id);
      return node_.Reader()->Streams(run.id)->size() >= streams && node_.RunHasEnded("job") &&
             deliveries.ok() && deliveries->front().complete;
    }));
  }
  // Logs some rows, and is killed. Returns the last step.
  int64_t Crash() const {
    ChildProcess rank = Start({"1000000", "0", "2000"});
    EXPECT_TRUE(WaitFor([&] { return node_.GetRun("job").rows >= 60; }));
    rank.Kill();
    EXPECT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    return node_.GetRun("job").last_step;
  }
  void RunToItsEnd(std::vector<std::string> args) const {
    const uint64_t streams = node_.Reader()->Streams(node_.GetRun("job").id)->size();
    ChildProcess rank = Start(std::move(args));
    EXPECT_EQ(rank.Wait(), 0) << rank.Output();
    AwaitEnd(streams + 1);
  }
  Finished Ranklog(std::vector<std::string> args, int code = 0) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.environment = {{"WANDB_API_KEY", std::string(40, 'k')}};
    Finished finished = RunToEnd(args, options);
    EXPECT_EQ(finished.code, code) << finished.output;
    return finished;
  }
  std::vector<json> Export() const {
    std::istringstream lines(Ranklog({"export", "job"}).output);
    std::vector<json> rows;
    for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
    return rows;
  }
  // Checks that the export has the steps 0 to `last`, each once, in order, and so does the tracker.
  void ExpectStepsUpTo(int64_t last) const {
    const std::vector<json> rows = Export();
    ASSERT_THAT(rows, SizeIs(last + 1));
    for (int64_t step = 0; step <= last; ++step) ASSERT_EQ(rows[step]["_step"], step);
    EXPECT_THAT(wandb_.errors(), IsEmpty());
    const FakeWandb::Run run = wandb_.run("job");
    ASSERT_THAT(run.history, SizeIs(last + 1));
    for (int64_t step = 0; step <= last; ++step) {
      ASSERT_EQ(ParseExtendedJson(run.history[step])["_step"], step);
    }
    EXPECT_FALSE(ParseExtendedJson(run.summary).contains("ranklog/rows_lost"));
  }

  FakeWandb wandb_;
  Node node_{{"--transmit-interval", "50ms"}};
};

TEST_F(ContinuedTest, CheckpointReplayReplacesOldRows) {
  const int64_t last = Crash();
  const double crashed = Export().back()["_timestamp"];
  RunToItsEnd({std::to_string(2 * kBack), "0", "0", "", std::to_string(last + 1 - kBack)});
  ExpectStepsUpTo(last + kBack);
  for (const json& row : Export()) {
    EXPECT_EQ(row["_timestamp"] > crashed, row["_step"] > last - kBack) << row;
  }

  const json run = json::parse(Ranklog({"runs", "--json"}).output)[0];
  EXPECT_EQ(run["replayed_rows"], kBack);
  EXPECT_EQ(run["late_rows"], 0);
  EXPECT_EQ(run["ranks"][0]["lost"], 0);
  EXPECT_THAT(Ranklog({"runs"}).output, AllOf(HasSubstr("REPLAYED"), Not(HasSubstr("LATE"))));
  EXPECT_THAT(Ranklog({"doctor"}).output, HasSubstr("job (20 replayed)"));
  EXPECT_THAT(Ranklog({"verify", "job"}).output,
              AllOf(HasSubstr(" there + 0 merged + 20 replayed + 0 late + 0 waiting + 0 missing"),
                    HasSubstr("all is there")));
  const json report = json::parse(Ranklog({"verify", "job", "--json"}).output);
  EXPECT_EQ(report["sum"]["rows"], last + 1 + 2 * kBack);
  EXPECT_EQ(report["sum"]["placed"], last + 1 + kBack);
  EXPECT_EQ(report["sum"]["holds"], true);
  const json shown = json::parse(Ranklog({"show", "job", "--json"}).output);
  EXPECT_EQ(shown["metrics"]["loss"]["count"], last + 1 + kBack);
  EXPECT_EQ(shown["last_step"], last + kBack);
}

// Local readers show what the tracker would show if it could rewind: later steps are hidden.
TEST_F(ContinuedTest, ShorterAttemptHidesLaterSteps) {
  const int64_t last = Crash();
  RunToItsEnd({"5", "0", "0", "", std::to_string(last + 1 - kBack)});
  const std::vector<json> rows = Export();
  ASSERT_THAT(rows, SizeIs(last + 1 - kBack + 5));
  EXPECT_EQ(rows.back()["_step"], last - kBack + 5);
  EXPECT_EQ(node_.GetRun("job").last_step, last - kBack + 5);
  EXPECT_THAT(wandb_.run("job").history, SizeIs(last + 1));
  EXPECT_THAT(Ranklog({"tail", "job", "-n", "1", "--no-follow", "--json"}).output,
              HasSubstr("\"_step\":" + std::to_string(last - kBack + 5)));
  Ranklog({"verify", "job"});
  // The run continues from there.
  RunToItsEnd({std::to_string(kBack), "0", "0", "", std::to_string(last - kBack + 6)});
  ExpectStepsUpTo(last + 5);
  Ranklog({"verify", "job"});
}

TEST_F(ContinuedTest, RowsWithoutAStepCountOn) {
  RunToItsEnd({"10", "0", "0", "", "none"});
  RunToItsEnd({"10", "0", "0", "", "none"});
  ExpectStepsUpTo(19);
  EXPECT_THAT(Ranklog({"verify", "job"}).output, HasSubstr("rows: 20 = 20 there"));
}

// The second Init() of a process waits until the Run of the first one has ended in any way.
class SecondInitTest : public ContinuedTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SecondInitTest, SecondInitWaitsForTheFirst) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
  for (const auto& [name, value] : Settings()) options.environment[name] = value;
  const Finished rank = RunToEnd({AGAIN_RANK, GetParam()}, options);
  EXPECT_EQ(rank.code, 0) << rank.output;
  AwaitEnd(/*streams=*/2);
  ExpectStepsUpTo(179);
  const auto streams = *node_.Reader()->Streams(node_.GetRun("job").id);
  ASSERT_THAT(streams, SizeIs(2));
  EXPECT_EQ(streams[1].attempt, 2u);
  EXPECT_GE(streams[1].started_us, streams[0].ended_us);
  const json run = json::parse(Ranklog({"runs", "--json"}).output)[0];
  EXPECT_EQ(run["state"], "finished");
  EXPECT_EQ(run["replayed_rows"], 20);
  EXPECT_EQ(run["late_rows"], 0);
  EXPECT_EQ(run["ranks"][0]["rows"], 200);
  EXPECT_EQ(run["ranks"][0]["lost"], 0);
  EXPECT_THAT(Ranklog({"verify", "job"}).output, HasSubstr("all is there"));
}

INSTANTIATE_TEST_SUITE_P(Ends, SecondInitTest, ::testing::Values("finish", "destroy"));

// Each thread gives all steps, and neither waits for the other.
TEST_F(ContinuedTest, ThreadsOfRankShareSteps) {
  constexpr int kRows = 1000;
  std::vector<ChildProcess> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(node_.StartRank("job", rank, rank, 2, 2,
                                    {std::to_string(kRows), "0", "0", "", "0", "2"},
                                    {{"RANKLOG_DESTINATIONS", "local"}}));
  }
  for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  const std::vector<json> rows = Export();
  ASSERT_THAT(rows, SizeIs(kRows));
  for (int step = 0; step < kRows; ++step) {
    ASSERT_EQ(rows[step]["_step"], step);
    EXPECT_EQ(rows[step]["rank_mean/shared"], 0.5) << step;
  }
  const json report = json::parse(Ranklog({"verify", "job", "--json"}).output);
  EXPECT_EQ(report["ranks"][0]["merged_rows"], kRows);
  EXPECT_EQ(report["ranks"][0]["placed_rows"], kRows);
  EXPECT_EQ(report["ranks"][1]["rows"], 2 * kRows);
}

}  // namespace
}  // namespace ranklog::testing
