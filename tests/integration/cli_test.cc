// The `ranklog` program on a store without a daemon: its usage, and its output about the whole
// store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"
#include "tests/integration/cli_fixture.h"
#include "tests/support/absent.h"
#include "tests/support/own_mounts.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(CliTest, VersionAndCommandHelpArePrinted) {
  EXPECT_THAT(Ranklog({"--version"}).output, StartsWith("ranklog 0."));
  EXPECT_THAT(Ranklog({"--help"}).output, HasSubstr("Examples:"));
  for (const char* command :
       {"status", "runs", "show", "tail", "export", "sync", "verify", "dead", "rm"}) {
    const Finished help = Ranklog({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.output,
                AllOf(HasSubstr("Examples:"), HasSubstr(absl::StrCat("ranklog ", command))));
  }
}

TEST_F(CliTest, WrongUsageExitsWithTwo) {
  EXPECT_EQ(Ranklog({}).code, 2);
  EXPECT_EQ(Ranklog({"nonsense"}).code, 2);
  EXPECT_EQ(Ranklog({"runs", "--nonsense"}).code, 2);
  EXPECT_EQ(Ranklog({"show"}).code, 2);
  EXPECT_EQ(Ranklog({"export", "latest", "--format", "xml"}).code, 2);
  EXPECT_EQ(Ranklog({"show", "latest", "--height", "1"}).code, 2);
  EXPECT_EQ(Ranklog({"tail", "latest", "-n", "many"}).code, 2);
  EXPECT_THAT(Ranklog({"runs", "--project=", "--json"}).output,
              HasSubstr("--project: its value is empty"));
  EXPECT_EQ(Ranklog({"runs", "--address", "unix:/x"}).code, 2) << "beside --state-dir";
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "runs", "--address", "localhost:1"}, options_).code, 2);
}

// A snapshot, an archive, or the directory of another user.
TEST_F(CliTest, StoreIsReadWhereNothingCanBeWritten) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const auto run = [&](const std::string& command, const std::string& of) {
    std::vector<std::string> words = {RANKLOG_CLI, command};
    if (command == "export") words.push_back("tiny");
    words.insert(words.end(), {"--state-dir", of});
    return RunToEnd(words, options_);
  };
  const std::string copy = dir_.File("copy"), view = dir_.File("view ?#%");
  std::filesystem::copy(state_dir(), copy);
  std::filesystem::remove(copy + "/ranklog.db-shm");
  const ReadOnlyView read_only(copy, view);
  ASSERT_TRUE(read_only.read_only());
  const Finished refused = run("runs", view);  // the store is open, so its log has rows
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("/ranklog.db-wal may have rows that are not in "),
                                    HasSubstr("copy the directory")));

  store_.reset();
  std::filesystem::remove(copy + "/ranklog.db-wal");
  std::filesystem::copy(state_dir() + "/ranklog.db", copy + "/ranklog.db",
                        std::filesystem::copy_options::overwrite_existing);
  for (const std::string& path : {view, "/" + view}) {
    const Finished read = run("runs", path);
    EXPECT_EQ(read.code, 0);
    EXPECT_THAT(read.output, AllOf(HasSubstr("tiny"), HasSubstr("other")));
    EXPECT_EQ(run("export", path).output, run("export", state_dir()).output);
  }

  const auto reader = storage::StoreReader::Open(view);
  ASSERT_OK(reader.status());
  EXPECT_THAT((*reader)->Runs(), IsOkAndHolds(SizeIs(2)));
  std::ofstream(copy + "/ranklog.db-shm");  // a daemon where the directory can be written
  EXPECT_THAT((*reader)->Runs(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("opened by a daemon")));
}

// `./train && ranklog runs`: the rank has ended, and the daemon is making its last rows.
TEST_F(CliTest, RunsAndStatusAwaitEndingRun) {
  const auto daemon = storage::StateLock::Acquire(state_dir());
  ASSERT_OK(daemon.status());
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->EndStream(live_.id, model::StreamState::kFinished, 0, "",
                              absl::ToUnixMicros(absl::Now())));
  ASSERT_OK(store_->Commit());
  ChildProcess runs({RANKLOG_CLI, "runs", "--json", "--state-dir", state_dir()}, options_);
  ChildProcess status({RANKLOG_CLI, "status", "--json", "--state-dir", state_dir()}, options_);
  EXPECT_EQ(runs.Wait(absl::Milliseconds(300)), absl::nullopt) << "it ended: " << runs.Output();
  EXPECT_EQ(status.Wait(absl::ZeroDuration()), absl::nullopt) << "it ended: " << status.Output();
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->CloseRun(live_.run, model::RunState::kFinished, 0, "", kStart));
  ASSERT_OK(store_->Commit());
  EXPECT_EQ(runs.Wait(), 0) << runs.Output();
  EXPECT_EQ(Parse(runs.Output())[0]["state"], "finished") << runs.Output();
  EXPECT_EQ(status.Wait(), 0) << status.Output();
  EXPECT_EQ(Parse(status.Output())["live_runs"], Json::array()) << status.Output();
}

TEST_F(CliTest, RunsDoesNotAwaitStaleRun) {
  const auto daemon = storage::StateLock::Acquire(state_dir());
  ASSERT_OK(daemon.status());
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->EndStream(live_.id, model::StreamState::kFinished, 0, "", kStart));
  ASSERT_OK(store_->Commit());
  const absl::Time begun = absl::Now();
  EXPECT_EQ(RanklogJson({"runs"})[0]["state"], "running");
  EXPECT_LT(absl::Now() - begun, absl::Milliseconds(1900)) << "it would wait for 2 s";
}

TEST_F(CliTest, EmptyRunArgumentIsWrongUsage) { EXPECT_EQ(Ranklog({"show", ""}).code, 2); }

TEST_F(CliTest, UnknownCommandOrFlagIsNamed) {
  const auto refused = [this](const std::vector<std::string>& args) {
    const Finished finished = Ranklog(args);
    EXPECT_EQ(finished.code, 2) << args[0];
    return finished.output;
  };
  EXPECT_THAT(refused({"nonsense"}), AllOf(HasSubstr("'nonsense'"), HasSubstr("status, runs, show"),
                                           HasSubstr("ranklog --help")));
  EXPECT_THAT(refused({"--nonsense"}),
              AllOf(HasSubstr("unknown option '--nonsense'"), HasSubstr("--help")));
  for (const char* command : {"runs", "status", "sync"}) {
    EXPECT_THAT(refused({command, "--nonsense"}),
                AllOf(HasSubstr("--nonsense"), HasSubstr("--help")));
  }
  EXPECT_THAT(Ranklog({}).output, HasSubstr("no command was given"));
}

TEST_F(CliTest, WrongUsageNamesCommandAndHelp) {
  EXPECT_EQ(Ranklog({"show"}).output, "ranklog show: RUN is required; see `ranklog show --help`\n");
  EXPECT_THAT(
      Ranklog({"tail", "latest", "-n", "-1"}).output,
      AllOf(HasSubstr("not a whole number of 0 or more"), HasSubstr("`ranklog tail --help`")));
}

TEST_F(CliTest, SyncOptionsNeedTheirPartner) {
  for (const auto& [option, value, needs] :
       {std::tuple{"--slurm-job", "7", "--wait"}, std::tuple{"--base-url", "https://a", "RUN"}}) {
    const Finished finished = Ranklog({"sync", option, value});
    EXPECT_EQ(finished.code, 2) << option;
    EXPECT_THAT(finished.output, HasSubstr(absl::StrCat(option, " needs ", needs)));
  }
}

TEST_F(CliTest, UnreadableStoreIsNotReportedMissing) {
  ASSERT_EQ(chmod(state_dir().c_str(), 0), 0);
  // Root needs to lose its right to read everything.
  std::vector<std::string> args = {RANKLOG_CLI, "runs", "--state-dir", state_dir()};
  if (geteuid() == 0) {
    ASSERT_EQ(chown(state_dir().c_str(), 65534, 65534), 0);
    args.insert(args.begin(), {"setpriv", "--bounding-set=-dac_override,-dac_read_search"});
  }
  const Finished finished = RunToEnd(args, options_);
  EXPECT_EQ(chmod(state_dir().c_str(), 0700), 0);
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("cannot read the store in "), HasSubstr("--state-dir")));
}

TEST_F(CliTest, UnknownRunErrorListsKnownRuns) {
  for (const char* command : {"show", "tail", "export", "verify", "dead", "rm"}) {
    std::vector<std::string> args = {command, "nothing"};
    if (args[0] == "rm") args.push_back("--yes");
    const Finished finished = Ranklog(args);
    EXPECT_EQ(finished.code, 1) << command;
    EXPECT_THAT(finished.output, AllOf(HasSubstr("'nothing'"), HasSubstr("gpt:job1"))) << command;
  }
}

TEST_F(CliTest, MissingStoreFailsWithAdvice) {
  for (std::vector<std::string> args : std::vector<std::vector<std::string>>{{"status"},
                                                                             {"runs"},
                                                                             {"show", "latest"},
                                                                             {"tail", "latest"},
                                                                             {"export", "latest"},
                                                                             {"sync"}}) {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", dir_.File("nowhere")});
    const Finished finished = RunToEnd(args, options_);
    EXPECT_EQ(finished.code, 1) << args[1];
    EXPECT_THAT(finished.output, AllOf(HasSubstr("--state-dir"), HasSubstr("ranklogd"))) << args[1];
  }
}

TEST_F(CliTest, SilentDaemonFailsTheCommand) {
  const Finished finished =
      RunToEnd({RANKLOG_CLI, "runs", "--address", "unix:" + dir_.File("no.sock")}, options_);
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("no.sock"));
}

TEST_F(CliTest, EnvironmentSetsStateDirectory) {
  options_.environment["RANKLOG_STATE_DIR"] = state_dir();
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "runs"}, options_).code, 0);
}

TEST_F(CliTest, RunsJsonHasFieldsInOrder) {
  const Json runs = RanklogJson({"runs"});
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(runs[0]["name"], "other") << "newest first";
  const Json& run = runs[1];
  std::vector<std::string> fields;
  for (const auto& item : run.items()) fields.push_back(item.key());
  fields.resize(10);
  EXPECT_THAT(fields, ElementsAre("run_id", "name", "group", "project", "strategy", "state", "rows",
                                  "last_step", "ranks", "destinations"));
  EXPECT_EQ(run["run_id"], "job1");
  EXPECT_EQ(run["name"], "tiny");
  EXPECT_EQ(run["group"], "sweep");
  EXPECT_EQ(run["tags"], Parse(R"(["wide", "bf16"])"));
  EXPECT_EQ(run["project"], "gpt");
  EXPECT_EQ(run["strategy"], "main");
  EXPECT_EQ(run["state"], "finished");
  EXPECT_EQ(run["rows"], 5);
  EXPECT_EQ(run["last_step"], 40);
  ASSERT_THAT(run["ranks"], SizeIs(2));
  EXPECT_EQ(run["ranks"][0]["lost"], 0);
  EXPECT_EQ(run["ranks"][1],
            Parse(R"({"rank":1,"node":"n1","rows":4,"lost":3,"losses":{"ring_full":2,
      "invalid":0,"step_behind":1,"too_large":0,"after_finish":0,"with_store":0,"values":0},"items":0,
      "lost_items":0,"refused_items":0,"late_rows":1,"replayed_rows":0,
      "unnamed_spool":"","unread_spool":""})"));
  ASSERT_THAT(run["destinations"], SizeIs(1));
  EXPECT_EQ(run["destinations"][0]["kind"], "wandb");
  EXPECT_EQ(run["destinations"][0]["delivered_rows"], 2);
  EXPECT_EQ(run["destinations"][0]["pending_rows"], 2);
  EXPECT_EQ(run["destinations"][0]["refused_rows"], 1);
  EXPECT_EQ(runs[0]["destinations"][0]["pending_rows"], 0) << "local has every row";
}

TEST_F(CliTest, RunsPrintsATable) {  // S37
  const Finished finished = Ranklog({"runs"});
  EXPECT_EQ(finished.code, 0);
  const std::vector<std::string> lines = Lines(finished.output);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], StartsWith("RUN"));
  EXPECT_THAT(lines[1], StartsWith("job2"));
  EXPECT_THAT(lines[2], AllOf(StartsWith("job1"), HasSubstr("finished"),
                              HasSubstr("wandb 2 +2 (1 refused)")));
  EXPECT_EQ(lines[3], "job1 waits for wandb: HTTP 503: overloaded");
  EXPECT_THAT(finished.output, Not(HasSubstr("\x1b"))) << "no colours into a file";
}

TEST_F(CliTest, RunsFiltersByProjectAndState) {
  EXPECT_THAT(RanklogJson({"runs", "--state", "running"}), SizeIs(1));
  EXPECT_THAT(RanklogJson({"runs", "--project", "none"}), SizeIs(0));
}

TEST_F(CliTest, RunsLimitKeepsNewest) {
  const Json runs = RanklogJson({"runs", "-n", "1"});
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0]["name"], "other");
  EXPECT_THAT(Ranklog({"runs", "--limit", "1"}).output,
              AllOf(HasSubstr("job2"), Not(HasSubstr("job1")), HasSubstr("and 1 older\n")));
  EXPECT_THAT(Ranklog({"runs", "-n", "2"}).output, Not(HasSubstr("older")));
  EXPECT_EQ(Ranklog({"runs", "-n", "0"}).code, 2);
}

TEST_F(CliTest, DoctorReportsPendingRowsAndCause) {
  const Finished finished = Ranklog({"doctor"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("delivery    wandb, 1 run, 1 waiting, 2 rows to deliver"),
                    HasSubstr("start ranklogd"), HasSubstr("HTTP 503")));
}

TEST_F(CliTest, StatusCountsRowsByState) {  // S37
  const Json status = RanklogJson({"status"});
  EXPECT_EQ(status["daemon"]["running"], false);
  EXPECT_EQ(status["state_dir"], state_dir());
  EXPECT_GT(status["store"]["bytes"], 0);
  EXPECT_EQ(status["runs"], 2);
  ASSERT_THAT(status["live_runs"], SizeIs(1));
  EXPECT_EQ(status["live_runs"][0]["run_id"], "job2");
  EXPECT_EQ(status["rows"]["queued"], 2);
  EXPECT_EQ(status["rows"]["refused"], 1);
  EXPECT_EQ(status["rows"]["late"], 1);
  EXPECT_EQ(status["rows"]["lost"], 3);
  EXPECT_EQ(status["lost"]["ring_full"], 2);
  EXPECT_EQ(status["lost"]["step_behind"], 1);
  const Finished text = Ranklog({"status"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.output, AllOf(HasSubstr("not running"), HasSubstr("HTTP 503: overloaded"),
                                 HasSubstr("ring_full 2")));
}

TEST_F(CliTest, StatusShowsQueueAndDisk) {
  const Json status = RanklogJson({"status"});
  EXPECT_GT(status["rows"]["queued_bytes"], 0);
  EXPECT_EQ(status["rows"]["oldest_queued"], static_cast<double>(kStart) / 1e6 + 1.5);  // row 3
  ASSERT_THAT(status["destinations"], SizeIs(2));
  const Json& wandb = status["destinations"][1];
  EXPECT_EQ(wandb["kind"], "wandb");
  EXPECT_EQ(wandb["pending_bytes"], status["rows"]["queued_bytes"]);
  EXPECT_TRUE(wandb["last_success"].is_null()) << "no daemon has seen it";
  EXPECT_GT(status["disk"]["free_bytes"], 0);
  EXPECT_GE(status["disk"]["bytes"], status["disk"]["free_bytes"]);
  EXPECT_TRUE(status["disk"]["full_in_seconds"].is_null());
  EXPECT_THAT(Ranklog({"status"}).output,
              AllOf(HasSubstr("B free of "), HasSubstr("2 queued ("), HasSubstr(" d ")));
}

TEST_F(CliTest, StatusCheckFailsOnProblems) {
  const Finished finished = Ranklog({"status", "--check"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("rows    "), HasSubstr("ranklog: no daemon is running; 3 rows lost: "
                                                     "ring_full 2, step_behind 1; 1 row refused")));
  EXPECT_EQ(Ranklog({"status", "--check", "--watch"}).code, 2);
  EXPECT_THAT(RanklogJson({"status"})["problems"], SizeIs(3));
}

TEST_F(CliTest, WatchPrintsLinesWithoutATerminal) {
  const Finished finished = Ranklog({"status", "--watch", "--interval", "10ms", "--times", "3"});
  EXPECT_EQ(finished.code, 0);
  const std::vector<std::string> lines = Lines(finished.output);
  ASSERT_THAT(lines, SizeIs(3));
  for (const std::string& line : lines) {
    EXPECT_THAT(line,
                AllOf(StartsWith("time=2"), HasSubstr(" daemon=none "), HasSubstr(" queued=2 "),
                      HasSubstr(" delivered=4 "), HasSubstr(" lost=3 ")));
  }
  const Finished json =
      Ranklog({"status", "--watch", "--interval", "10ms", "--times", "2", "--json"});
  ASSERT_THAT(Lines(json.output), SizeIs(2));
  for (const std::string& line : Lines(json.output)) {
    EXPECT_EQ(Parse(line)["rows"]["lost"], 3);
  }
  EXPECT_EQ(Ranklog({"status", "--interval", "1s"}).code, 2);
  EXPECT_EQ(Ranklog({"status", "--watch", "--interval", "0s"}).code, 2);
}

TEST_F(CliTest, StatusNamesStoreLockHolder) {
  ASSERT_OK_AND_ASSIGN(const storage::StateLock lock, storage::StateLock::Acquire(state_dir()));
  const Json status = RanklogJson({"status"});
  EXPECT_EQ(status["daemon"]["running"], true);
  EXPECT_EQ(status["daemon"]["pid"], getpid());
}

TEST_F(CliTest, DeadListsRefusedRecords) {
  const Json letters = RanklogJson({"dead", "tiny"});
  ASSERT_THAT(letters, SizeIs(1));
  EXPECT_EQ(letters[0]["row"], 2);
  EXPECT_EQ(letters[0]["answer"], "HTTP 400: bad key");
  EXPECT_THAT(Ranklog({"dead", "other"}).output, HasSubstr("no record of this run was refused"));
}

}  // namespace
}  // namespace ranklog::testing
