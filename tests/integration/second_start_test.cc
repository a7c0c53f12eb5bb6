// A start under a run id that already exists: which run it gets, and that no rows are mixed or
// hidden. S10, S41.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/container.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SecondStartTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  ChildProcess Start(const std::string& id, std::vector<std::string> args,
                     const std::string& resume = "") {
    return node_.StartRank(
        id, 0, 0, 1, 1, std::move(args),
        {{"RANKLOG_RESUME", resume}, {"RANKLOG_DESTINATIONS", "local"}, {"RANKLOG_QUIET", "0"}});
  }
  // Returns the rows of a run that has ended, and checks that all of them are in it.
  uint64_t RowsOf(const std::string& run_id) {
    EXPECT_TRUE(WaitFor([&] { return node_.RunHasEnded(run_id); })) << run_id;
    const model::Run run = node_.GetRun(run_id);
    EXPECT_EQ(run.late_rows, 0u) << run_id;
    return run.rows;
  }

  Node node_;
};

TEST_F(SecondStartTest, RepeatedIdMakesTwoRuns) {
  for (const char* run_id : {"again", "again-2", "again-3"}) {
    ChildProcess rank = Start("again", {"300"});
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    EXPECT_EQ(RowsOf(run_id), 300u) << run_id;
    const bool is_first = run_id == std::string("again");
    EXPECT_EQ(
        rank.Output().find("ranklog: run 'again' has ended: this start is '") == std::string::npos,
        is_first)
        << rank.Output();
    EXPECT_THAT(rank.Output(), HasSubstr(absl::StrCat("ranklog: run ", run_id, ": all 300 rows")));
  }
  EXPECT_THAT(node_.GetRun("again").notice, IsEmpty());
  EXPECT_THAT(node_.GetRun("again-2").notice, HasSubstr("Set RANKLOG_RESUME=allow"));
  ChildProcess rank = Start("again", {"100", "0", "0", "none", "300"}, "allow");
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("again").rows == 400; }));
  EXPECT_EQ(RowsOf("again"), 400u);
}

TEST_F(SecondStartTest, ConcurrentSameRankMakesTwoRuns) {
  ChildProcess first = Start("both", {"100", "0", "10000"});
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("both").id != 0; }));
  ChildProcess second = Start("both", {"100", "0", "10000"}, "allow");
  ASSERT_EQ(first.Wait(), 0) << first.Output();
  ASSERT_EQ(second.Wait(), 0) << second.Output();
  EXPECT_EQ(RowsOf("both"), 100u);
  EXPECT_EQ(RowsOf("both-2"), 100u);
  EXPECT_THAT(node_.GetRun("both-2").notice, HasSubstr("is running, and has rank 0 already"));
  EXPECT_THAT(second.Output(), HasSubstr("is running, and has rank 0 already"));
}

// A rank is killed and started again at once. Its ring may or may not be read in between.
TEST_F(SecondStartTest, KilledRankResumesOnlyOnRequest) {
  ChildProcess killed = Start("job", {"1000000", "0", "200"});
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").rows > 100; }));
  killed.Kill();
  ChildProcess next = Start("job", {"50", "0", "0", "none", "1000000"}, "allow");
  ASSERT_EQ(next.Wait(), 0) << next.Output();
  const uint64_t rows = RowsOf("job");
  EXPECT_GT(rows, 150u);
  EXPECT_EQ(node_.GetRun("job").last_step, 1000049);
  ChildProcess other = Start("job", {"50"});
  ASSERT_EQ(other.Wait(), 0) << other.Output();
  EXPECT_EQ(RowsOf("job-2"), 50u);
  EXPECT_EQ(RowsOf("job"), rows);
}

// The ring of a rank that no daemon met is found after the next start.
TEST_F(SecondStartTest, OrphanStaysWithItsOwnStart) {
  ASSERT_EQ(Start("job", {"10"}).Wait(), 0);
  node_.Kill();
  ChildProcess unmet =
      node_.StartRank("job", 0, 0, 1, 1, {"20", "7"}, {{"RANKLOG_FINISH_TIMEOUT_MS", "50"}});
  EXPECT_EQ(unmet.Wait(), 3);
  ChildProcess next =
      node_.StartRank("job", 0, 0, 1, 1, {"30"}, {{"RANKLOG_FINISH_TIMEOUT_MS", "50"}});
  EXPECT_EQ(next.Wait(), 3);
  node_.Start();
  EXPECT_EQ(RowsOf("job"), 10u);
  EXPECT_EQ(RowsOf("job-2"), 20u);
  EXPECT_EQ(RowsOf("job-3"), 30u);
}

// A rank was killed before it attached, and started again before the daemon found its ring.
TEST_F(SecondStartTest, UnattachedRingPrecedesNextProcess) {
  node_.daemon().Signal(SIGSTOP);
  const std::map<std::string, std::string> settings = {{"RANKLOG_RESUME", "allow"},
                                                       {"RANKLOG_FINISH_TIMEOUT_MS", "50"}};
  EXPECT_EQ(node_.StartRank("job", 0, 0, 1, 1, {"20", "7"}, settings).Wait(), 3);
  ChildProcess next = Start("job", {"30", "0", "0", "none", "20"}, "allow");
  EXPECT_TRUE(WaitFor([&] {
    using Files = std::filesystem::directory_iterator;
    return std::distance(Files(node_.spool_dir()), Files()) == 2;
  }));
  node_.daemon().Signal(SIGCONT);
  EXPECT_EQ(next.Wait(), 0) << next.Output();
  EXPECT_EQ(RowsOf("job"), 50u);
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
}

TEST_F(SecondStartTest, RefusedMustAndNeverKeepRows) {
  ASSERT_EQ(Start("there", {"10"}).Wait(), 0);
  ChildProcess refused = Start("there", {"20"}, "never");
  EXPECT_EQ(refused.Wait(), 0) << "the training is not hurt";
  EXPECT_THAT(refused.Output(), HasSubstr("ranklog: resume=never, but run 'there' exists"));
  EXPECT_EQ(Start("nowhere", {"30"}, "must").Wait(), 0);
  EXPECT_EQ(Start("there", {"5", "0", "0", "none", "100"}, "must").Wait(), 0);
  EXPECT_EQ(RowsOf("there-2"), 20u);
  EXPECT_EQ(RowsOf("nowhere-2"), 30u);
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("there").rows == 15; }));
  const auto cli = [&](const char* command) {
    return RunToEnd({RANKLOG_CLI, "--state-dir", node_.state_dir(), command});
  };
  for (const char* command : {"status", "runs", "doctor"}) {
    const std::string text = cli(command).output;
    EXPECT_THAT(text, HasSubstr("resume=never, but run 'there' exists")) << command;
    EXPECT_THAT(text, HasSubstr("resume=must, but run 'nowhere' does not exist")) << command;
  }
  EXPECT_EQ(cli("doctor").code, 1);
}

TEST_F(SecondStartTest, MustIsRefusedAfterRunRemoval) {
  ASSERT_EQ(Start("gone", {"10"}).Wait(), 0);
  EXPECT_EQ(RowsOf("gone"), 10u);
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_ADDRESS", node_.address()}};
  const auto cli = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {RANKLOG_CLI, "--state-dir", node_.state_dir()});
    return RunToEnd(args, options).output;
  };
  EXPECT_THAT(cli({"rm", "gone", "--yes"}), HasSubstr("removed"));
  constexpr char kRefused[] = "resume=must, but run 'gone' does not exist";
  ChildProcess must = Start("gone", {"20"}, "must");
  EXPECT_EQ(must.Wait(), 0) << must.Output();
  EXPECT_THAT(must.Output(), HasSubstr(kRefused));
  EXPECT_EQ(RowsOf("gone-2"), 20u);
  EXPECT_THAT(cli({"status"}), HasSubstr(kRefused));
  EXPECT_EQ(Start("gone", {"30"}).Wait(), 0);
  EXPECT_EQ(RowsOf("gone"), 30u) << "the id is free";
}

// A run that this store does not know may be at the tracker, from another node.
TEST_F(SecondStartTest, MustAsksTheTracker) {
  FakeWandb wandb;
  std::map<std::string, std::string> there = WandbAt(wandb.url());
  ASSERT_EQ(node_.StartRank("moved", 0, 0, 1, 1, {"10"}, there).Wait(), 0);
  ASSERT_TRUE(wandb.WaitForEnd("moved", absl::Seconds(30)));
  Node next;
  next.Start();
  there["RANKLOG_RESUME"] = "must";
  EXPECT_EQ(next.StartRank("moved", 0, 0, 1, 1, {"10", "0", "0", "none", "10"}, there).Wait(), 0);
  EXPECT_EQ(next.StartRank("nowhere", 0, 0, 1, 1, {"10"}, there).Wait(), 0);
  EXPECT_TRUE(wandb.WaitFor([](const auto& runs) { return runs.at("moved").history.size() == 20; },
                            absl::Seconds(30)));
  const auto is_refused = [&](const std::string& id) {
    return RunToEnd({RANKLOG_CLI, "--state-dir", next.state_dir(), "status"})
               .output.find("resume=must, and the tracker has no run '" + id + "'") !=
           std::string::npos;
  };
  EXPECT_TRUE(WaitFor([&] { return is_refused("nowhere"); }));
  EXPECT_EQ(wandb.runs().count("nowhere"), 0u);
  there["RANKLOG_RESUME"] = "allow";
  EXPECT_EQ(next.StartRank("nowhere", 0, 0, 1, 1, {"10", "0", "0", "none", "10"}, there).Wait(), 0);
  EXPECT_TRUE(wandb.WaitFor(
      [](const auto& runs) {
        return runs.count("nowhere") != 0 && runs.at("nowhere").history.size() == 20;
      },
      absl::Seconds(30)))
      << "what was refused is not tried again before a minute, unless it is started anew";
  // The same for two ranks that one shell starts, both times.
  const auto start_pair = [&](const char* resume, const char* first_step) {
    there["RANKLOG_RESUME"] = resume;
    const std::vector<std::string> args = {"10", "0", "0", "none", first_step};
    ChildProcess first = next.StartRank("pair", 0, 0, 2, 2, args, there);
    ChildProcess second = next.StartRank("pair", 1, 1, 2, 2, args, there);
    EXPECT_EQ(first.Wait(), 0) << first.Output();
    EXPECT_EQ(second.Wait(), 0) << second.Output();
  };
  start_pair("must", "0");
  EXPECT_TRUE(WaitFor([&] { return is_refused("pair"); }));
  start_pair("allow", "10");
  EXPECT_TRUE(wandb.WaitFor(
      [](const auto& runs) {
        return runs.count("pair") != 0 && runs.at("pair").history.size() == 20;
      },
      absl::Seconds(30)));
}

// The user gives no id. A restart by the launcher continues the run. A restart by a shell within
// the same job is another run.
TEST_F(SecondStartTest, LauncherRestartContinuesSingleProcessJob) {
  const auto run = [&](int first_step, std::map<std::string, std::string> extra) {
    extra["RANKLOG_RUN_ID"] = "";
    extra["RANKLOG_DESTINATIONS"] = "local";
    ChildProcess rank = node_.StartRank(
        "", 0, 0, 1, 1, {"20", "0", "0", "none", std::to_string(first_step)}, extra);
    EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  };
  const auto rows_become = [&](const std::string& run_id, uint64_t rows) {
    return WaitFor([&] { return node_.GetRun(run_id).rows == rows; });
  };
  for (int restart : {0, 1}) {
    run(20 * restart, {{"TORCHELASTIC_RUN_ID", "elastic"},
                       {"TORCHELASTIC_RESTART_COUNT", std::to_string(restart)}});
  }
  EXPECT_TRUE(WaitFor([&] {
    const auto runs = node_.Reader()->Runs();
    return runs.ok() && runs->size() == 1 && runs->front().rows == 40;
  }));

  std::map<std::string, std::string> step = {
      {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  run(0, step);
  step["SLURM_RESTART_COUNT"] = "1";
  run(20, step);
  EXPECT_TRUE(rows_become("slurm-77-0", 40));
  run(0, step);
  EXPECT_TRUE(rows_become("slurm-77-0-2", 20));
  EXPECT_EQ(node_.GetRun("slurm-77-0").rows, 40u);
}

// A shell starts the same two ranks twice. torchrun's agent restarts them.
TEST_F(SecondStartTest, RanksOfOneLauncherAgree) {
  const auto run = [&](const std::string& id, std::map<std::string, std::string> extra) {
    std::vector<ChildProcess> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ChildProcess::Options options;
      options.environment = node_.RankEnvironment(id, rank, rank, 2, 2);
      options.environment["RANKLOG_DESTINATIONS"] = "local";
      for (const auto& [name, value] : extra) options.environment[name] = value;
      // Each rank has its own wrapper, which does not count as its launcher.
      ranks.push_back(ChildProcess(
          {"sh", "-c", std::string(LOGGING_RANK) + " 20 0 0 none $FIRST_STEP; exit $?"}, options));
    }
    for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  };
  run("shell", {{"FIRST_STEP", "0"}});
  run("shell", {{"FIRST_STEP", "0"}});
  for (const char* run_id : {"shell", "shell-2"}) {
    EXPECT_EQ(RowsOf(run_id), 20u);
    EXPECT_EQ(node_.Reader()->Streams(node_.GetRun(run_id).id)->size(), 2u) << run_id;
  }
  for (const char* restart : {"0", "1"}) {
    run("elastic", {{"TORCHELASTIC_RUN_ID", "none"},
                    {"TORCHELASTIC_RESTART_COUNT", restart},
                    {"FIRST_STEP", restart == std::string("0") ? "0" : "20"}});
  }
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("elastic").rows == 40; }));
  EXPECT_EQ(node_.GetRun("elastic-2").id, 0);
}

// Each rank is in its own pid namespace, where it cannot see its launcher. Each ends before the
// next one starts.
TEST_F(SecondStartTest, RanksInSeparateContainersShareStart) {
  SKIP_WITHOUT(HasContainers(), "namespaces of this kernel");
  const auto run = [&](int rank, const std::string& resume, const std::string& first_step) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", rank, rank, 2, 2);
    options.environment["RANKLOG_DESTINATIONS"] = "local";
    options.environment["RANKLOG_SPOOL_DIR"] = "";
    options.environment["RANKLOG_RESUME"] = resume;
    std::vector<std::string> command = InContainer();
    command.insert(command.end(), {LOGGING_RANK, "20", "0", "0", "none", first_step});
    const Finished rank_in_container = RunToEnd(command, options);
    EXPECT_EQ(rank_in_container.code, 0) << rank_in_container.output;
  };
  for (const char* run_id : {"job", "job-2"}) {
    run(0, "", "0");
    run(1, "", "0");
    EXPECT_EQ(RowsOf(run_id), 20u);
    const auto streams = node_.Reader()->Streams(node_.GetRun(run_id).id);
    EXPECT_EQ(streams->size(), 2u) << run_id;
    for (const model::Stream& stream : *streams) EXPECT_EQ(stream.attempt, 1u);
  }
  run(0, "allow", "20");
  run(1, "allow", "20");
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").rows == 40; }));
  EXPECT_EQ(RowsOf("job"), 40u);
  EXPECT_EQ(node_.GetRun("job-3").id, 0);
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "--state-dir", node_.state_dir(), "verify", "job"}).code, 0);
}

}  // namespace
}  // namespace ranklog::testing
