// `ranklog sync PATH` with the real program: logs of W&B's SDK are delivered once. S15.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/service/import/log_builder.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class SyncLogsTest : public ::testing::Test {
 protected:
  SyncLogsTest() {
    options_.environment = {{"WANDB_BASE_URL", wandb_.url()},
                            {"WANDB_API_KEY", std::string(40, 'a')},
                            {"HOME", dir_.path()},
                            {"RANKLOG_STATE_DIR", dir_.File("state")}};
    options_.unset = {"RANKLOG_ADDRESS", "WANDB_DIR", "WANDB_MODE"};
  }

  Finished Sync(std::vector<std::string> args) const {
    args.insert(args.begin(), {RANKLOG_CLI, "sync"});
    return RunToEnd(args, options_);
  }
  // Only what it prints to stdout.
  Finished SyncJson(std::vector<std::string> args) const {
    args.insert(args.begin(), {"sh", "-c", "exec \"$@\" 2>/dev/null", "", RANKLOG_CLI, "sync"});
    args.emplace_back("--json");
    return RunToEnd(args, options_);
  }
  LogBuilder Log(const std::string& id) const {
    return {dir_.path() + "/wandb", "offline-run-20260102_030405-" + id, id};
  }
  static bool IsMarked(const LogBuilder& log) {
    return std::filesystem::exists(log.path() + ".synced");
  }

  TempDir dir_;
  FakeWandb wandb_;
  ChildProcess::Options options_;
};

TEST_F(SyncLogsTest, DeliversRunAndMarksItsLog) {
  LogBuilder log = Log("a");
  wandb_internal::Record metric;
  metric.mutable_metric()->set_name("loss");
  metric.mutable_metric()->set_step_metric("epoch");  // rows that lack it stay without it
  metric.mutable_metric()->mutable_options()->set_step_sync(true);
  log.Run({{"lr", "0.1"}}).Add(metric).Rows(0, 100);
  log.Summary({{"loss", "7"}, {"best", "1"}, {"_runtime", "98"}}).Exit(3);
  const Finished finished = Sync({log.dir()});
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("gpt:a"), HasSubstr("100/100"), HasSubstr("delivered")));
  const FakeWandb::Run run = wandb_.run("a");
  ASSERT_THAT(run.history, SizeIs(100));
  EXPECT_EQ(run.history[2],
            R"({"loss":2.5,"_runtime":2.125,"_timestamp":1767322789.25,"_step":2})");
  EXPECT_THAT(run.summary, AllOf(HasSubstr("\"loss\":7"), HasSubstr("\"best\":1"),
                                 HasSubstr("\"_runtime\":98")));
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.config, AllOf(HasSubstr(R"("lr":{"value":0.1})"), Not(HasSubstr("world_size"))));
  EXPECT_TRUE(IsMarked(log));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
}

TEST_F(SyncLogsTest, SecondSyncSendsNothing) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 10).Exit();
  ASSERT_EQ(Sync({log.dir()}).code, 0);
  const size_t requests = wandb_.requests().size();
  Finished again = Sync({log.dir()});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output, HasSubstr("already synced"));
  again = Sync({log.dir(), "--include-synced"});
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(wandb_.requests().size(), requests);
  EXPECT_THAT(wandb_.run("a").history, SizeIs(10));
}

TEST_F(SyncLogsTest, LogThatOtherProgramSyncedIsRefused) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 10).Exit();
  std::ofstream(log.path() + ".synced").close();
  EXPECT_EQ(Sync({log.dir()}).code, 0);
  const Finished refused = Sync({log.dir(), "--include-synced"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("another program synced it"));
  EXPECT_EQ(Sync({log.dir(), "--include-synced", "--as-id", "b"}).code, 0);
  EXPECT_THAT(wandb_.run("b").history, SizeIs(10));
}

TEST_F(SyncLogsTest, KilledSyncContinuesWithoutDoubling) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 30000).Exit();
  // Killed while it waits for an answer: about the run, and to rows.
  for (const bool with_rows : {false, true}) {
    const auto posts = [&] { return wandb_.requests().size(); };
    const size_t before = posts();
    ChildProcess sync({RANKLOG_CLI, "sync", log.dir()}, options_);
    if (with_rows) {
      wandb_.Inject({.times = 1, .act = true, .delay = absl::Seconds(30)});
      ASSERT_TRUE(WaitFor([&] { return !wandb_.run("a").history.empty(); }));
    } else {
      wandb_.Inject({.on = FakeWandb::Fault::On::kGraphql,
                     .times = 1,
                     .act = true,
                     .delay = absl::Seconds(30)});
      ASSERT_TRUE(WaitFor([&] { return posts() >= before + 1; }));
    }
    sync.Kill();
    EXPECT_FALSE(IsMarked(log));
  }
  // An answer is lost, too.
  wandb_.Inject({.times = 1, .code = FakeWandb::kCut, .act = true});
  const Finished finished = Sync({log.dir()});
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(wandb_.run("a").history, SizeIs(30000));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_TRUE(IsMarked(log));
}

// The log is larger than what is imported before the delivery begins.
TEST_F(SyncLogsTest, FullDiskEndsTheSync) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(dir_.File("state"), "16m");
  ASSERT_TRUE(disk.mounted());
  LogBuilder log = Log("a");
  log.Run();
  std::minstd_rand random(1);  // the store compresses what repeats
  for (int64_t row = 0; row < 40; ++row) {
    std::string text(1 << 20, '\0');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    log.Row(row, {{"text", "\"" + text + "\""}});
  }
  log.Exit();
  const Finished finished = Sync({log.dir()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("full"));
  EXPECT_FALSE(IsMarked(log));
}

TEST_F(SyncLogsTest, LostStoreDoublesNoRows) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 50).Exit();
  ASSERT_EQ(Sync({log.dir()}).code, 0);
  std::filesystem::remove_all(dir_.File("state"));
  std::filesystem::remove(log.path() + ".synced");
  const Finished again = Sync({log.dir()});
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(wandb_.run("a").history, SizeIs(50));
}

TEST_F(SyncLogsTest, TornLogIsReportedAndRestSent) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 10).Torn();
  const Finished finished = Sync({log.dir()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, AllOf(HasSubstr("could not be read"), HasSubstr("run-a.wandb")));
  EXPECT_THAT(wandb_.run("a").history, SizeIs(10));
  EXPECT_EQ(wandb_.run("a").exit_code, 1);
  EXPECT_FALSE(IsMarked(log));
}

TEST_F(SyncLogsTest, PartsOfResumedRunAreJoinedInOrder) {
  LogBuilder second(dir_.path() + "/wandb", "offline-run-1-a", "a");
  second.Run({}, /*start=*/100).Rows(20, 30).Exit();
  LogBuilder first(dir_.path() + "/wandb", "offline-run-2-a", "a");
  first.Run().Rows(0, 20).Exit(1);
  const Finished finished = Sync({dir_.path() + "/wandb"});
  EXPECT_EQ(finished.code, 0) << finished.output;
  const FakeWandb::Run run = wandb_.run("a");
  ASSERT_THAT(run.history, SizeIs(30));
  EXPECT_THAT(run.history[29], HasSubstr("\"_step\":29"));
  EXPECT_EQ(run.exit_code, 0);
}

TEST_F(SyncLogsTest, PartsMayBeSyncedOneByOne) {
  LogBuilder first(dir_.path() + "/wandb", "offline-run-1-a", "a");
  first.Run({}, 0, /*resume=*/true).Rows(0, 20);  // killed
  LogBuilder second(dir_.path() + "/wandb", "offline-run-2-a", "a");
  second.Run({}, /*start=*/100, /*resume=*/true).Rows(0, 10).Exit();  // counts from 0
  for (const LogBuilder* part : {&first, &second}) {
    const Finished finished = Sync({part->dir()});
    EXPECT_EQ(finished.code, 0) << finished.output;
    EXPECT_TRUE(IsMarked(*part));
  }
  const FakeWandb::Run run = wandb_.run("a");
  ASSERT_THAT(run.history, SizeIs(30));
  EXPECT_THAT(run.history[29], HasSubstr("\"_step\":29"));
  EXPECT_EQ(run.exit_code, 0);
}

TEST_F(SyncLogsTest, ResumedPartFollowsRowsOfServer) {
  LogBuilder first(dir_.path() + "/wandb", "offline-run-1-a", "a");
  first.Run().Rows(0, 20).Exit(1);
  ASSERT_EQ(Sync({first.dir()}).code, 0);
  LogBuilder second(dir_.path() + "/wandb", "offline-run-2-a", "a");
  second.Run({}, /*start=*/100, /*resume=*/true).Rows(0, 10).Exit();
  // The second time, the server's last step is that of the log itself.
  for (int time = 0; time < 2; ++time) {
    std::filesystem::remove_all(dir_.File("state"));
    std::filesystem::remove(second.path() + ".synced");
    const Finished finished = Sync({second.dir()});
    EXPECT_EQ(finished.code, 0) << finished.output;
    const FakeWandb::Run run = wandb_.run("a");
    ASSERT_THAT(run.history, SizeIs(30));
    EXPECT_THAT(run.history[29], HasSubstr("\"_step\":29"));
  }
  EXPECT_THAT(wandb_.errors(), IsEmpty());
}

TEST_F(SyncLogsTest, RowsLeftOutAreTold) {
  LogBuilder first(dir_.path() + "/wandb", "offline-run-1-a", "a");
  first.Run().Rows(0, 20).Exit(1);
  LogBuilder second(dir_.path() + "/wandb", "offline-run-2-a", "a");
  second.Run({}, /*start=*/100).Rows(15, 25).Exit();  // from a checkpoint
  const Finished finished = Sync({dir_.path() + "/wandb"});
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("5 rows left out: an earlier part"));
  EXPECT_THAT(wandb_.run("a").history, SizeIs(25));
}

TEST_F(SyncLogsTest, PartThatOtherProgramSyncedStays) {
  LogBuilder first(dir_.path() + "/wandb", "offline-run-1-a", "a");
  first.Run().Rows(0, 20).Exit(1);
  std::ofstream(first.path() + ".synced").close();
  LogBuilder second(dir_.path() + "/wandb", "offline-run-2-a", "a");
  second.Run({}, /*start=*/100).Rows(20, 30).Exit();
  EXPECT_EQ(Sync({dir_.path() + "/wandb"}).code, 0);
  EXPECT_THAT(wandb_.run("a").history, SizeIs(10));
}

TEST_F(SyncLogsTest, VerifyReadsImportedRunBack) {
  LogBuilder log = Log("a");
  log.Run({{"lr", "0.1"}}).Rows(0, 20).Print(1, false, "hello\n").Stats(2, {{"cpu", "1"}});
  log.File("x.txt", "x").Saved("x.txt").Summary({{"loss", "19.5"}}).Exit();
  ASSERT_EQ(Sync({log.dir()}).code, 0);
  const auto stores = std::filesystem::directory_iterator(dir_.File("state") + "/imported");
  const Finished verify =
      RunToEnd({RANKLOG_CLI, "verify", "latest", "--state-dir", stores->path().string()}, options_);
  EXPECT_EQ(verify.code, 0) << verify.output;
  const FakeWandb::Run run = wandb_.run("a");
  EXPECT_THAT(run.console, SizeIs(1));
  EXPECT_THAT(run.events, SizeIs(1));
  EXPECT_EQ(run.files.at("x.txt"), "x");
}

TEST_F(SyncLogsTest, AbsentFileFails) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 5).Saved("absent.txt").Exit();
  const Finished finished = Sync({log.dir()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("file absent.txt"));
  EXPECT_THAT(wandb_.run("a").history, SizeIs(5));
}

TEST_F(SyncLogsTest, ChoosesByName) {
  for (const char* const id : {"a", "b", "c"}) Log(id).Run().Rows(0, 5).Exit();
  options_.environment["WANDB_DIR"] = dir_.path();
  const Finished dry = Sync({"--all", "--dry-run"});
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(dry.output,
              AllOf(HasSubstr("gpt:a"), HasSubstr("gpt:c"), HasSubstr("would be sent")));
  EXPECT_THAT(wandb_.requests(), IsEmpty());
  const Finished sync = Sync({"--all", "--exclude", "*-a", "--include", "*-[ab]"});
  EXPECT_EQ(sync.code, 0) << sync.output;
  EXPECT_THAT(wandb_.runs(), SizeIs(1));
  EXPECT_THAT(wandb_.run("b").history, SizeIs(5));
}

TEST_F(SyncLogsTest, GoesToOtherPlace) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 5).Exit();
  const Finished sync =
      Sync({log.path(), "--as-project", "other", "--as-entity", "team", "--as-id", "x"});
  EXPECT_EQ(sync.code, 0) << sync.output;
  EXPECT_THAT(sync.output, HasSubstr("other:x"));
  EXPECT_THAT(wandb_.run("x").history, SizeIs(5));
}

TEST_F(SyncLogsTest, FollowsLiveLogUntilItsExit) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 5);
  ChildProcess sync({RANKLOG_CLI, "sync", "--live", log.dir()}, options_);
  EXPECT_TRUE(WaitFor([&] { return wandb_.run("a").history.size() == 5; }));
  log.Rows(5, 8);
  EXPECT_TRUE(WaitFor([&] { return wandb_.run("a").history.size() == 8; }));
  EXPECT_FALSE(wandb_.run("a").complete);
  log.Exit();
  EXPECT_EQ(sync.Wait(), 0) << sync.Output();
  EXPECT_TRUE(wandb_.run("a").complete);
  EXPECT_TRUE(IsMarked(log));
}

TEST_F(SyncLogsTest, InterruptedLiveSyncFails) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 5);
  ChildProcess sync({RANKLOG_CLI, "sync", "--live", log.dir()}, options_);
  EXPECT_TRUE(WaitFor([&] { return wandb_.run("a").history.size() == 5; }));
  sync.Signal(SIGINT);
  EXPECT_EQ(sync.Wait(), 1);
  EXPECT_THAT(sync.Output(), HasSubstr("interrupted"));
  EXPECT_FALSE(IsMarked(log));
}

TEST_F(SyncLogsTest, JsonHasResultOfEachRun) {
  Log("a").Run().Rows(0, 5).Exit();
  Log("b").Run().Rows(0, 5).Saved("absent.txt").Exit();
  Log("c");  // names no run
  // By the run's id; the log that names no run has an empty one.
  const auto sync = [&](const std::vector<std::string>& args) {
    std::vector<std::string> all = {dir_.path() + "/wandb"};
    all.insert(all.end(), args.begin(), args.end());
    const Finished finished = SyncJson(all);
    EXPECT_EQ(finished.code, 1);  // because of "c"
    std::map<std::string, nlohmann::json> runs;
    for (const auto& run : nlohmann::json::parse(finished.output)) {
      runs[run.value("run_id", "")] = run;
      EXPECT_EQ(run.at("logs").size(), 1u);
    }
    return runs;
  };
  auto runs = sync({"--dry-run"});
  EXPECT_EQ(runs["a"].at("result"), "would be sent");
  EXPECT_EQ(runs[""].at("result"), "cannot be read");
  EXPECT_THAT(runs[""].at("why").get<std::string>(), HasSubstr("names no run"));
  EXPECT_THAT(wandb_.requests(), IsEmpty());

  runs = sync({});
  EXPECT_EQ(runs["a"].at("result"), "delivered");
  EXPECT_EQ(runs["a"].at("why"), "");
  const nlohmann::json& b = runs["b"];
  EXPECT_EQ(b.at("result"), "incomplete");
  EXPECT_THAT(b.at("why").get<std::string>(), HasSubstr("could not be read"));
  EXPECT_EQ(b.at("notes").size(), 1u);
  EXPECT_EQ(b.at("rows"), 5);
  EXPECT_EQ(b.at("state"), "finished");
  EXPECT_EQ(b.at("entity"), "fake-team");
  EXPECT_EQ(b.at("destinations").at(0).at("delivered_rows"), 5);
  EXPECT_THAT(b.at("destinations").at(0).at("url").get<std::string>(), HasSubstr("/runs/b"));

  EXPECT_EQ(sync({})["a"].at("result"), "already synced");
}

TEST_F(SyncLogsTest, InterruptedSyncDeliversNothingInName) {
  Log("a").Run().Rows(0, 5);
  Log("b").Run().Rows(0, 5).Exit();
  ChildProcess sync({RANKLOG_CLI, "sync", "--live", "--parallel", "1", dir_.path() + "/wandb"},
                    options_);
  EXPECT_TRUE(WaitFor([&] { return wandb_.run("a").history.size() == 5; }));
  sync.Signal(SIGINT);
  EXPECT_EQ(sync.Wait(), 1);
  EXPECT_THAT(sync.Output(), AllOf(Not(HasSubstr("delivered\n")), HasSubstr("not begun")));
}

TEST_F(SyncLogsTest, WrongUsageIsTold) {
  EXPECT_EQ(Sync({"--dry-run"}).code, 2);
  EXPECT_THAT(Sync({"--dry-run"}).output, HasSubstr("--dry-run needs PATH or --all"));
  EXPECT_THAT(Sync({dir_.path() + "/absent"}).output, HasSubstr("there is no file or directory"));
  Log("a").Run();
  Log("b").Run();
  EXPECT_EQ(Sync({dir_.path() + "/wandb", "--as-id", "x"}).code, 2);
}

TEST_F(SyncLogsTest, WithoutKeyTellsWhatToDo) {
  LogBuilder log = Log("a");
  log.Run().Rows(0, 5).Exit();
  options_.environment.erase("WANDB_API_KEY");
  options_.unset.push_back("WANDB_API_KEY");
  const Finished finished = Sync({log.dir()});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("WANDB_API_KEY"));
}

}  // namespace
}  // namespace ranklog::testing
