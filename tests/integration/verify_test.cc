// `ranklog verify` with real programs: reports whether all of a run is where it belongs, and names
// what is missing. S24.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/counting_job.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/terminal.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kVerifyRows = 1200;  // more than one page of the server

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  // Runs a job of two ranks to its end, delivered to its destination.
  void RunJob(const std::string& destination = "wandb") {
    const std::map<std::string, std::string> settings = {{"RANKLOG_DESTINATIONS", destination},
                                                         {"WANDB_BASE_URL", wandb_->url()},
                                                         {"WANDB_API_KEY", key_}};
    std::vector<ChildProcess> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(
          node_.StartRank("job", rank, rank, 2, 2, {std::to_string(kVerifyRows)}, settings));
    }
    for (ChildProcess& rank : ranks) ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    ASSERT_TRUE(WaitFor([&] {
      const auto deliveries = node_.Reader()->Deliveries(node_.GetRun("job").id);
      return deliveries.ok() && deliveries->size() == 1 && deliveries->front().complete;
    }));
  }

  Finished Verify(std::vector<std::string> args = {}) const {
    args.insert(args.begin(), {RANKLOG_CLI, "verify", "job", "--timeout", timeout_, "--state-dir",
                               node_.state_dir()});
    return RunToEnd(args, options_);
  }
  // Expects the exit code `code`. Returns the report.
  json VerifyJson(int code) const {
    const Finished finished = Verify({"--json"});
    EXPECT_EQ(finished.code, code) << finished.output;
    // Messages on stderr may precede and follow the object.
    const size_t begin = finished.output.find("{\n");
    const size_t end = finished.output.rfind("\n}");
    json report =
        begin < end ? json::parse(finished.output.substr(begin, end + 2 - begin)) : json();
    EXPECT_TRUE(report.is_object()) << finished.output;
    EXPECT_EQ(report["ok"], code == 0);
    return report;
  }
  // Waits until the daemon has stored the 100 rows of `counting`. Then stops it, and 50 more rows
  // stay in the spool.
  void LeaveFiftyInSpool(CountingJob& counting) {
    ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").id != 0; }));
    ASSERT_TRUE(WaitFor([&] { return counting.Stream().durable_seq == 100; }));
    node_.daemon().Signal(SIGSTOP);
    counting.LogMore(50);
    ASSERT_TRUE(counting.WaitForReturned(150));
  }
  void Tamper(const std::function<void(std::vector<std::string>&)>& change) {
    wandb_->Tamper("job", [&](FakeWandb::Run& run) { change(run.history); });
  }

  const std::string key_ = std::string(40, 'k');
  std::unique_ptr<FakeWandb> wandb_ = std::make_unique<FakeWandb>();
  Node node_{{"--transmit-interval", "50ms"}};
  std::string timeout_ = "60s";
  ChildProcess::Options options_{
      .environment = {{"WANDB_API_KEY", key_}}, .unset = {}, .output = ""};
};

TEST_F(VerifyTest, PassesWithAndWithoutDaemon) {
  RunJob();
  for (const bool daemon : {true, false}) {
    if (!daemon) {
      ASSERT_EQ(node_.Terminate(), 0);
    }
    const Finished finished = Verify();
    EXPECT_EQ(finished.code, 0) << finished.output;
    EXPECT_THAT(finished.output, AllOf(HasSubstr("all is there"), Not(HasSubstr("\x1b"))));
    const json report = VerifyJson(0);
    ASSERT_THAT(report["ranks"], SizeIs(2));
    for (const json& rank : report["ranks"]) {
      EXPECT_EQ(rank["rows"], kVerifyRows);
      EXPECT_EQ(rank["there"], kVerifyRows);
      EXPECT_EQ(rank["waiting_rows"], 0);
    }
    ASSERT_THAT(report["destinations"], SizeIs(1));
    const json& wandb = report["destinations"][0];
    EXPECT_EQ(wandb["kind"], "wandb");
    EXPECT_EQ(wandb["sent"], kVerifyRows);
    EXPECT_EQ(wandb["there"], kVerifyRows);
    EXPECT_EQ(wandb["lines"], kVerifyRows);
    EXPECT_EQ(wandb["not_checked"], 0);
    EXPECT_EQ(wandb["state"], "finished");
  }
}

TEST_F(VerifyTest, ReportsMissingChangedAndDuplicateRows) {
  RunJob();
  Tamper([](std::vector<std::string>& lines) {
    lines[1100] = absl::StrReplaceAll(lines[1100], {{"\"loss\":1100,", "\"loss\":1099.5,"}});
    lines.push_back(lines[20]);
    lines.push_back(lines[20]);
    lines.erase(lines.begin() + 17);
  });
  const json wandb = VerifyJson(1)["destinations"][0];
  EXPECT_EQ(wandb["missing"], 1);
  EXPECT_EQ(wandb["gaps"], json::parse(R"([{"first":17,"last":17}])"));
  EXPECT_EQ(wandb["differing"], 1);
  EXPECT_EQ(wandb["duplicates"], 2);
  EXPECT_EQ(wandb["there"], kVerifyRows - 2);
  EXPECT_THAT(
      Verify().output,
      AllOf(HasSubstr("row 17: missing"), HasSubstr("row 1100: "), HasSubstr("1099.5"),
            HasSubstr("2 lines duplicated"), HasSubstr("the server counts 1201 lines, not 1200"),
            HasSubstr("run test:job did not pass the check"), Not(HasSubstr("all is there"))));
}

TEST_F(VerifyTest, ReportsDifferingConfigAndSummaryKeys) {
  RunJob();
  json wandb = VerifyJson(0)["destinations"][0];
  for (const char* document : {"config", "summary"}) {
    EXPECT_EQ(wandb[document]["compared"], true);
    EXPECT_GT(wandb[document]["keys"], 0);
    EXPECT_EQ(wandb[document]["there"], wandb[document]["keys"]);
  }
  wandb_->Tamper("job", [](FakeWandb::Run& run) {
    json config = json::parse(run.config);
    config["world_size"]["value"] = 3;
    config.erase("node");
    config["edited"] = {{"value", "by hand"}};
    run.config = config.dump();
    json summary = json::parse(run.summary);
    summary["loss"] = -1;
    summary["stray"] = 7;
    run.summary = summary.dump();
  });
  wandb = VerifyJson(1)["destinations"][0];
  EXPECT_EQ(wandb["there"], kVerifyRows);
  EXPECT_EQ(wandb["config"]["differing"], 1);
  EXPECT_EQ(wandb["config"]["missing"], 1);
  EXPECT_EQ(wandb["config"]["unexpected"], 1);
  EXPECT_EQ(wandb["summary"]["differing"], 1);
  EXPECT_EQ(wandb["summary"]["unexpected"], 1);
  EXPECT_THAT(Verify().output,
              AllOf(HasSubstr("config: \"world_size\" is 3, not 2"),
                    HasSubstr("config: \"node\" is missing"),
                    HasSubstr("config: \"edited\" is \"by hand\", but was not sent"),
                    HasSubstr("summary: \"loss\" is -1, not {"), HasSubstr("\"stray\"")));
}

TEST_F(VerifyTest, RefusedRowIsDeadLetter) {
  wandb_->RefuseLines(
      [](const std::string& line) { return absl::StrContains(line, "\"loss\":7,"); });
  RunJob();
  const json wandb = VerifyJson(1)["destinations"][0];
  EXPECT_EQ(wandb["dead_letters"], 1);
  EXPECT_EQ(wandb["there"], kVerifyRows - 1);
  EXPECT_EQ(wandb["missing"], 0);
  EXPECT_EQ(wandb["differing"], 0);
}

TEST_F(VerifyTest, UnreachableTrackerLeavesRowsUnchecked) {
  RunJob();
  ASSERT_EQ(node_.Terminate(), 0);
  wandb_.reset();  // from here on no server answers
  timeout_ = "1s";
  json wandb = VerifyJson(1)["destinations"][0];
  EXPECT_THAT(wandb["problems"].dump(), HasSubstr("not read back"));
  EXPECT_EQ(wandb["not_checked"], kVerifyRows);
}

TEST_F(VerifyTest, UndeliveredRowsArePending) {
  const std::string url = wandb_->url();
  wandb_.reset();  // the server goes down before it has seen the run
  const std::map<std::string, std::string> settings = {
      {"RANKLOG_DESTINATIONS", "wandb"}, {"WANDB_BASE_URL", url}, {"WANDB_API_KEY", key_}};
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kVerifyRows)}, settings);
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  ASSERT_EQ(node_.Terminate(), 0);
  const json wandb = VerifyJson(1)["destinations"][0];
  EXPECT_EQ(wandb["pending_rows"], kVerifyRows);
  EXPECT_EQ(wandb["sent"], 0);
  EXPECT_EQ(wandb["there"], 0);
  EXPECT_EQ(wandb["missing"], 0);
  const Finished finished = Verify();
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("PENDING"), HasSubstr("1200 rows and 3 items not yet delivered"),
                    Not(HasSubstr("all is there"))));
}

TEST_F(VerifyTest, DrawsBarOnlyOnTerminal) {
  RunJob();
  // Longer than it takes until a bar is drawn.
  const auto answer_late = [&] {
    wandb_->Inject({.on = FakeWandb::Fault::On::kGraphql,
                    .times = 1,
                    .code = 200,
                    .act = true,
                    .retry_after = "",
                    .delay = absl::Milliseconds(1500)});
  };
  answer_late();
  const std::vector<std::string> args = {RANKLOG_CLI, "verify", "job", "--state-dir",
                                         node_.state_dir()};
  EXPECT_THAT(RunOnTerminal(args, options_).output,
              AllOf(HasSubstr("\rread back ["), HasSubstr("\r\x1b[K")));
  answer_late();
  EXPECT_THAT(RunToEnd(args, options_).output,
              AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\x1b")), Not(HasSubstr("read back ["))));
}

TEST_F(VerifyTest, MissingKeyErrorNamesKeyLocations) {
  RunJob();
  options_.environment = {{"HOME", node_.state_dir()}, {"NETRC", "/nonexistent"}};
  options_.unset = {"WANDB_API_KEY"};
  const Finished finished = Verify();
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("WANDB_API_KEY"));
  EXPECT_THAT(finished.output, HasSubstr("\n      machine HOST login user password KEY\n    to "));
}

TEST_F(VerifyTest, ALocalRunIsItsStore) {
  RunJob("local");
  const json report = VerifyJson(0);
  EXPECT_EQ(report["destinations"][0]["kind"], "local");
  EXPECT_EQ(report["destinations"][0]["there"], kVerifyRows);
  EXPECT_EQ(report["store"]["ok"], true);
}

// No daemon sees the child alive. It finds the child's spool some seconds later.
TEST_F(VerifyTest, WaitsUntilDaemonReadSpoolOfForkedChild) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
  options.environment["RANKLOG_DESTINATIONS"] = "local";
  const Finished rank = RunToEnd({ENDING_RANK, "fork"}, options);
  ASSERT_EQ(rank.code, 0) << rank.output;
  const json report = VerifyJson(0);
  EXPECT_EQ(report["ranks"][0]["rows"], 250);
  EXPECT_EQ(report["ranks"][0]["placed_rows"], 250);
  EXPECT_EQ(report["spools"]["rows"], 0);
}

// The rank died before it attached, so the store does not know its run.
TEST_F(VerifyTest, WaitsForRunThatIsOnlyInSpool) {
  RunJob("local");
  node_.daemon().Signal(SIGSTOP);
  ChildProcess rank = node_.StartRank("new", 0, 0, 1, 1, {"100", "kill"});
  ASSERT_EQ(rank.Wait(), -SIGKILL) << rank.Output();
  node_.daemon().Signal(SIGCONT);
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  const Finished finished = RunToEnd(
      {RANKLOG_CLI, "verify", "latest", "--json", "--state-dir", node_.state_dir()}, options_);
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_EQ(json::parse(finished.output)["run_id"], "new");
}

TEST_F(VerifyTest, UnreadSpoolFailsOnlyItsOwnRun) {
  ChildProcess first =
      node_.StartRank("job", 0, 0, 1, 1, {"200"}, {{"RANKLOG_DESTINATIONS", "local"}});
  ASSERT_EQ(first.Wait(), 0) << first.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  node_.Kill();
  const auto leave_spool = [&](const std::string& job) {
    ChildProcess rank =
        node_.StartRank(job, 0, 0, 1, 1, {"100", "0", "0", "none", "200"},
                        {{"RANKLOG_FINISH_TIMEOUT_MS", "50"}, {"RANKLOG_RESUME", "allow"}});
    ASSERT_EQ(rank.Wait(), 3) << rank.Output();  // spooled
  };
  const auto in_spools = [&](const std::string& command) {
    const Finished finished =
        RunToEnd({RANKLOG_CLI, command, "--json", "--state-dir", node_.state_dir()}, options_);
    // A message on stderr precedes the list.
    return json::parse(finished.output.substr(finished.output.find("[\n")))[0]["in_spools"];
  };
  leave_spool("other");
  EXPECT_EQ(VerifyJson(0)["spools"]["rows"], 0);
  EXPECT_EQ(in_spools("runs"), 0);

  leave_spool("job");
  const std::string text = "100 rows of rank 0 of test:job are only in a spool";
  const json report = VerifyJson(1);
  EXPECT_EQ(report["spools"], (json{{"rows", 100}, {"problems", {text}}}));
  EXPECT_THAT(Verify().output, AllOf(HasSubstr("spools: " + text), Not(HasSubstr("all is there"))));
  EXPECT_EQ(in_spools("runs"), 100);
  const auto said = [&](std::vector<std::string> command) {
    command.insert(command.begin(), RANKLOG_CLI);
    command.insert(command.end(), {"--state-dir", node_.state_dir()});
    return RunToEnd(command, options_).output;
  };
  EXPECT_THAT(said({"runs"}), HasSubstr("100 rows of job are only in spools"));
  EXPECT_THAT(said({"show", "job"}), HasSubstr("100 rows of job are only in spools"));

  node_.Start();
  EXPECT_EQ(VerifyJson(0)["ranks"][0]["rows"], 300);
}

TEST_F(VerifyTest, RowsInSpoolOfLiveRankAreNotThere) {
  CountingJob counting(node_, "job", 100, {{"RANKLOG_DESTINATIONS", "local"}});
  ASSERT_NO_FATAL_FAILURE(LeaveFiftyInSpool(counting));
  EXPECT_EQ(VerifyJson(1)["spools"]["rows"], 50);
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  EXPECT_THAT(RunToEnd({RANKLOG_CLI, "runs", "--state-dir", node_.state_dir()}, options_).output,
              HasSubstr("50 rows of job are only in spools"))
      << "the daemon does not answer";
  node_.daemon().Signal(SIGCONT);
  EXPECT_EQ(counting.Finish(), 0);
  EXPECT_EQ(VerifyJson(0)["ranks"][0]["rows"], 150);
}

// A live rank always has some rows that are on their way to the daemon. Here the rank is stopped,
// so that they stay on their way.
TEST_F(VerifyTest, RowsOfLiveRankAreOnlyInSpoolsIfNoDaemonRuns) {
  CountingJob counting(node_, "job", 100, {{"RANKLOG_DESTINATIONS", "local"}});
  ASSERT_NO_FATAL_FAILURE(LeaveFiftyInSpool(counting));
  counting.rank().Signal(SIGSTOP);
  node_.Kill();
  for (const bool daemon : {false, true}) {
    if (daemon) node_.Start();
    EXPECT_EQ(VerifyJson(1)["spools"]["rows"], 50);
    for (std::vector<std::string> command : {std::vector<std::string>{"runs"}, {"show", "job"}}) {
      command.insert(command.begin(), RANKLOG_CLI);
      command.insert(command.end(), {"--state-dir", node_.state_dir()});
      const std::string output = RunToEnd(command, options_).output;
      EXPECT_EQ(absl::StrContains(output, "50 rows of job are only in spools"), !daemon)
          << command[1] << ": " << output;
    }
  }
  counting.rank().Signal(SIGCONT);
  EXPECT_EQ(counting.Finish(), 0);
  EXPECT_EQ(VerifyJson(0)["ranks"][0]["rows"], 150);
}

TEST_F(VerifyTest, ADamagedStoreIsNamed) {
  RunJob("local");
  ASSERT_EQ(node_.Terminate(), 0);
  node_.EditStore(
      "UPDATE stream_batch SET data = zeroblob(length(data)) "
      "WHERE id = (SELECT min(id) FROM stream_batch)");
  const json report = VerifyJson(1);
  EXPECT_EQ(report["store"]["ok"], false);
  EXPECT_THAT(report["ranks"].dump(), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace ranklog::testing
