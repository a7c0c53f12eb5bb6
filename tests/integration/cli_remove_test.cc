// `ranklog rm` and `prune`, without a daemon and with one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/cli_fixture.h"
#include "tests/integration/node.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/terminal.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(CliTest, RemoveWithoutTerminalRequiresYes) {
  const Finished finished = Ranklog({"rm", "tiny", "--force"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.output, AllOf(HasSubstr("--yes"), HasSubstr("`ranklog rm --help`")));
  EXPECT_EQ(Ranklog({"rm", "--yes"}).code, 2);
  EXPECT_THAT(RanklogJson({"runs"}), SizeIs(2));
}

TEST_F(CliTest, RemoveRefusesRunningAndUndeliveredRuns) {
  store_.reset();
  const Finished waits = Ranklog({"rm", "tiny", "--yes"});
  EXPECT_EQ(waits.code, 1);
  EXPECT_THAT(waits.output, AllOf(HasSubstr("2 rows not delivered to wandb"), HasSubstr("--force"),
                                  HasSubstr("nothing was removed")));
  // If one of several runs cannot be removed, none is.
  const Finished runs = Ranklog({"rm", "tiny", "other", "--yes", "--force"});
  EXPECT_EQ(runs.code, 1);
  EXPECT_THAT(runs.output, AllOf(HasSubstr("gpt:job2 is still running"),
                                 HasSubstr("start ranklogd"), Not(HasSubstr("removed gpt"))));
  EXPECT_THAT(RanklogJson({"runs"}), SizeIs(2));
}

TEST_F(CliTest, RemoveLeavesNothingOfARun) {
  store_.reset();
  const std::string spool = dir_.File("spool");
  std::filesystem::create_directory(spool);
  options_.environment["RANKLOG_SPOOL_DIR"] = spool;
  const std::string other = spool + "/ring-7-00000000000000ff.spool.damaged";
  for (const std::string& ring : {spool + "/ring-7-00000000000000a0.spool.damaged",
                                  spool + "/ring-8-00000000000000a1.spool", other}) {
    std::ofstream(ring) << "x";
  }
  const Json removed = RanklogJson({"rm", "job1", "tiny", "--yes", "--force"});
  ASSERT_THAT(removed, SizeIs(1)) << "named twice";
  EXPECT_EQ(removed[0], Parse(R"({"run_id":"job1","project":"gpt","name":"tiny","rows":5,
      "undelivered_rows":2})"));
  EXPECT_EQ(Ranklog({"show", "tiny"}).code, 1);
  EXPECT_THAT(Ranklog({"rm", "jo", "--yes"}).output,
              HasSubstr("with --yes, RUN must be a whole id: 'jo' is only the beginning of job2"));
  EXPECT_THAT(RanklogJson({"runs"}), SizeIs(1));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(spool)) {
    left.push_back(entry.path().string());
  }
  EXPECT_THAT(left, ElementsAre(other));
  // Its removal leaves no damage, and its space is free.
  ASSERT_OK_AND_ASSIGN(const auto reader, storage::StoreReader::Open(state_dir()));
  EXPECT_OK(reader->Check());
  EXPECT_THAT(Ranklog({"doctor"}).output, HasSubstr("no damage found"));
}

// Two runs that their tracker has completely, one of them two days old, and a running run.
class PruneTest : public CliTest {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, storage::Store::Open(state_dir(), {}));
    ASSERT_OK(store_->Begin());
    MakeRunningRun();
    Deliver("old", absl::Hours(50));
    Deliver("new", absl::Hours(2));
    ASSERT_OK(store_->Commit());
    store_.reset();
  }
  void Deliver(const std::string& job, absl::Duration age) {
    const int64_t ended_us = absl::ToUnixMicros(absl::Now() - age);
    const model::Stream stream = Attach(job, 0, job, "wandb", ended_us - 1000);
    ASSERT_OK(store_->DefineRunShape(stream.run, 1, std::vector<std::string>{"loss", "lr"}));
    ASSERT_OK(store_->AppendRunRows(stream.run, MakeBatch(0, 50)));
    ASSERT_OK(store_->EndStream(stream.id, model::StreamState::kFinished, 0, "", ended_us));
    ASSERT_OK(store_->CloseRun(stream.run, model::RunState::kFinished, 0, "", ended_us));
    model::Delivery delivery;
    delivery.run = stream.run;
    delivery.kind = "wandb";
    delivery.delivered_rows = 50;
    delivery.complete = true;
    ASSERT_OK(store_->PutDelivery(delivery));
  }
  std::vector<std::string> RunsLeft() const {
    std::vector<std::string> left;
    for (const Json& run : RanklogJson({"runs"})) left.push_back(run["run_id"]);
    return left;
  }
};

TEST_F(PruneTest, DryRunOnlyListsRuns) {
  const Finished named = Ranklog({"prune", "--dry-run", "--keep-for", "24h"});
  EXPECT_EQ(named.code, 0);
  EXPECT_THAT(named.output, AllOf(HasSubstr("gpt:old"), Not(HasSubstr("gpt:new")),
                                  HasSubstr("would remove 1 run, ")));
  EXPECT_THAT(RunsLeft(), SizeIs(3));
  EXPECT_EQ(Ranklog({"prune", "--dry-run"}).output, "would remove 0 runs, 0 B\n")
      << "within a week";
}

TEST_F(PruneTest, AgeAndSizeSelectRemovedRuns) {
  EXPECT_EQ(Ranklog({"prune"}).code, 2) << "nobody can be asked";
  const Json removed = RanklogJson({"prune", "--yes", "--keep-for", "24h"});
  ASSERT_THAT(removed, SizeIs(1));
  EXPECT_EQ(removed[0]["run_id"], "old");
  EXPECT_EQ(removed[0]["rows"], 50);
  EXPECT_GT(removed[0]["bytes"], 50 * 2 * 8);
  EXPECT_THAT(RunsLeft(), ElementsAre("new", "job2"));
  EXPECT_EQ(Ranklog({"prune", "--yes", "--keep-for", "forever", "--keep-bytes", "0"}).code, 0);
  EXPECT_THAT(RunsLeft(), ElementsAre("job2")) << "it runs";
}

TEST_F(PruneTest, AsksBeforeItRemoves) {
  const auto answered = [&](const std::string& answer) {
    return RunOnTerminal({RANKLOG_CLI, "prune", "--keep-for", "24h", "--state-dir", state_dir()},
                         options_, answer + "\n");
  };
  for (const char* answer : {"", "n", "yesterday"}) {
    const Finished kept = answered(answer);
    EXPECT_EQ(kept.code, 1) << kept.output;
    EXPECT_THAT(kept.output,
                AllOf(HasSubstr("gpt:old"), Not(HasSubstr("gpt:new")), HasSubstr("Remove 1 run, "),
                      HasSubstr("[y/N]"), HasSubstr("nothing was removed")));
    EXPECT_THAT(RunsLeft(), SizeIs(3)) << answer;
  }
  const Finished removed = answered(" Yes");
  EXPECT_EQ(removed.code, 0) << removed.output;
  EXPECT_THAT(removed.output, HasSubstr("removed 1 run, "));
  EXPECT_THAT(RunsLeft(), ElementsAre("new", "job2"));
}

TEST_F(PruneTest, RemovesOnlyEnoughForSizeLimit) {
  ASSERT_OK_AND_ASSIGN(const auto reader, storage::StoreReader::Open(state_dir()));
  ASSERT_OK_AND_ASSIGN(const int64_t used, reader->UsedBytes());
  const Json going = RanklogJson(
      {"prune", "--dry-run", "--keep-for", "forever", "--keep-bytes", std::to_string(used - 1)});
  ASSERT_THAT(going, SizeIs(1));
  EXPECT_EQ(going[0]["run_id"], "old");
}

TEST_F(PruneTest, UndeliveredRunsStay) {
  ASSERT_OK_AND_ASSIGN(store_, storage::Store::Open(state_dir(), {}));
  ASSERT_OK(store_->Begin());
  MakeFinishedRun();  // two of its rows wait
  ASSERT_OK(store_->Commit());
  store_.reset();
  EXPECT_EQ(Ranklog({"prune", "--yes", "--keep-for", "0s", "--keep-bytes", "0"}).code, 0);
  EXPECT_THAT(RunsLeft(), ElementsAre("job1", "job2"));
}

TEST_F(PruneTest, InvalidLimitsAreUsageErrors) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--keep-for", "soon"},
                                                {"--keep-for", "-1h"},
                                                {"--keep-bytes", "lots"},
                                                {"--keep-bytes", "-1"}}) {
    std::vector<std::string> args = {"prune", "--dry-run"};
    args.insert(args.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(Ranklog(args).code, 2) << wrong[1];
  }
}

class RemoveBesideADaemonTest : public ::testing::Test {
 protected:
  Finished Ranklog(std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()},
                           {"RANKLOG_SPOOL_DIR", node_.spool_dir()}};
    options.unset = {"WANDB_API_KEY"};
    return RunToEnd(args, options);
  }
  Json Runs() const { return Parse(Ranklog({"runs", "--json"}).output); }
  void MakeRun(const std::string& job, std::map<std::string, std::string> settings) {
    ChildProcess rank = node_.StartRank(job, 0, 0, 1, 1, {"100"}, std::move(settings));
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  }

  const DeadPort dead_{DeadPort::kRefuses};
  Node node_;
};

TEST_F(RemoveBesideADaemonTest, PruneAppliesRetentionAtOnce) {
  FakeWandb wandb;
  node_.Start();
  MakeRun("delivered", WandbAt(wandb.url()));
  MakeRun("waiting", WandbAt(dead_.url()));
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("deliver.pending") == 1; }));
  EXPECT_THAT(Ranklog({"prune", "--yes"}).output, HasSubstr("removed 0 runs")) << "a week";
  // Whatever the limits, a run stays for ten seconds after its end, since Finish() may be repeated.
  Finished pruned;
  ASSERT_TRUE(WaitFor([&] {
    pruned = Ranklog({"prune", "--yes", "--keep-for", "0s"});
    return pruned.output.rfind("removed 1 run,", 0) == 0;
  })) << pruned.output;
  EXPECT_EQ(node_.LogCount("run delivered: removed with 100 rows by `ranklog prune`"), 1u);
  ASSERT_THAT(Runs(), SizeIs(1));
  EXPECT_EQ(Runs()[0]["run_id"], "waiting");
}

// It would remove runs by limits that nobody set.
TEST_F(RemoveBesideADaemonTest, PruneNeedsTheLimitsOfAHungDaemon) {
  node_.Start();
  node_.daemon().Signal(SIGSTOP);
  const Finished unknown = Ranklog({"prune", "--dry-run", "--keep-for", "1h"});
  const Finished given =
      Ranklog({"prune", "--dry-run", "--keep-for", "1h", "--keep-bytes", "unlimited"});
  node_.daemon().Signal(SIGCONT);
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.output, HasSubstr("no daemon answers"));
  EXPECT_EQ(given.code, 0) << given.output;
}

TEST_F(RemoveBesideADaemonTest, DaemonRemovesRequestedRuns) {
  node_.Start();
  const std::map<std::string, std::string> local = {{"RANKLOG_DESTINATIONS", "local"}};
  const std::string stop = node_.state_dir() + "/stop";
  ChildProcess live = node_.StartRank("live", 0, 0, 1, 1, {"100000", "0", "1000", stop}, local);
  MakeRun("first", local);
  MakeRun("waiting", WandbAt(dead_.url()));
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("deliver.failing") == 1; }));

  const Finished attached = Ranklog({"rm", "live", "--yes", "--force"});
  EXPECT_EQ(attached.code, 1);
  EXPECT_THAT(attached.output, HasSubstr("test:live is still running"));
  EXPECT_THAT(Ranklog({"rm", "waiting", "--yes"}).output, HasSubstr("100 rows not delivered"));

  EXPECT_EQ(Ranklog({"rm", "fir", "waiting", "--yes", "--force"}).code, 1) << "not a whole id";

  const Finished removed = Ranklog({"rm", "first", "waiting", "--yes", "--force"});
  EXPECT_EQ(removed.code, 0) << removed.output;
  EXPECT_THAT(removed.output, AllOf(HasSubstr("removed test:first, 100 rows\n"),
                                    HasSubstr("removed test:waiting, 100 rows\n")));
  EXPECT_THAT(Runs(), SizeIs(1));
  // The daemon sends nothing more of it, has the space again, and continues.
  EXPECT_TRUE(WaitFor([&] { return node_.Counter("deliver.failing") == 0; }));
  EXPECT_EQ(node_.Counter("deliver.pending"), 1u) << "the live one";
  EXPECT_TRUE(WaitFor([&] { return node_.Counter("store.removed_bytes") > 0; }));
  EXPECT_EQ(node_.Counter("store.removed_runs"), 2u);
  EXPECT_EQ(node_.LogCount("run waiting: removed with 100 rows"), 1u);
  EXPECT_FALSE(std::filesystem::is_empty(node_.spool_dir())) << "the ring of the live one";

  MakeRun("first", local);  // the name is free again
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("first"); }));
  EXPECT_EQ(node_.GetRun("first").rows, 100u);
  node_.Kill();
  node_.Start();
  EXPECT_THAT(Runs(), SizeIs(2));
  EXPECT_OK(node_.Reader()->Check());
  fclose(fopen(stop.c_str(), "w"));
  EXPECT_EQ(live.Wait(), 0) << live.Output();
}

}  // namespace
}  // namespace ranklog::testing
