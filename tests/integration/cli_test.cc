// The `ranklog` program on a store without a daemon: what it prints, and what it answers with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/storage/store.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::Finished;
using ::ranklog::testing::RunToEnd;
using ::ranklog::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

constexpr int64_t kStart = 1700000000000000;

Json Parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << text;
  return json;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// Rows 0, 1, ... at the steps 0, 10, ... with a value for each of two keys.
model::Batch MakeBatch(uint64_t first, uint64_t rows) {
  model::Batch batch;
  batch.first = first;
  batch.last = first + rows - 1;
  model::Block block;
  block.shape = 1;
  for (uint64_t i = 0; i < rows; ++i) {
    block.offsets.push_back(i);
    block.steps.push_back(10 * static_cast<int64_t>(i));
    block.times_us.push_back(kStart + static_cast<int64_t>(i) * 500000);
    block.values.push_back(1.0 / static_cast<double>(i + 1));
    block.values.push_back(static_cast<double>(i));
  }
  batch.blocks.push_back(block);
  return batch;
}

// A store with two runs: "tiny" of two ranks, finished, delivered in part to W&B with a refused
// row; and, begun later, "other", still running and local.
class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, storage::Store::Open(state_dir(), {}));
    ASSERT_OK(store_->Begin());
    MakeFinishedRun();
    MakeRunningRun();
    ASSERT_OK(store_->Commit());
  }

  std::string state_dir() const { return dir_.File("state"); }

  // Runs ranklog on the store.
  Finished Ranklog(std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", state_dir()});
    return RunToEnd(args, options_);
  }
  Json RanklogJson(std::vector<std::string> args) const {
    args.push_back("--json");
    const Finished finished = Ranklog(std::move(args));
    EXPECT_EQ(finished.code, 0) << finished.output;
    return Parse(finished.output);
  }

  model::Stream Attach(const std::string& job, uint32_t rank, const std::string& name,
                       const std::string& destination, int64_t time_us) {
    model::Session session;
    session.stream = {"gpt", job, rank, /*incarnation=*/0xA0 + rank};
    session.settings.name = name;
    session.settings.group = "sweep";
    session.settings.destinations = {destination};
    session.settings.start_time_us = time_us;
    session.settings.base_url = "http://127.0.0.1:1";  // nothing listens there
    session.identity.world_size = 2;
    session.identity.local_world_size = 2;
    session.identity.local_rank = rank;
    session.identity.node = "n1";
    model::RunAssignment assignment;
    assignment.run_id = job;
    assignment.name = name;
    assignment.primary = rank == 0;
    const auto stream = store_->Attach(session, assignment, time_us);
    EXPECT_OK(stream);
    return stream.value_or(model::Stream());
  }

  void MakeFinishedRun() {
    for (const uint32_t rank : {0, 1}) {
      const model::Stream stream = Attach("job1", rank, "tiny", "wandb", kStart);
      ASSERT_OK(store_->DefineShape(stream.id, 1, std::vector<std::string>{"train/loss", "lr"}));
      ASSERT_OK(store_->Append(stream.id, MakeBatch(1, rank == 0 ? 5 : 4)));
      ASSERT_OK(store_->SetAggregated(stream.id, rank == 0 ? 5 : 4, /*late_rows=*/rank));
      run_ = stream.run;
      if (rank == 1) {
        model::Losses losses;
        losses.ring_full = 2;
        losses.step_behind = 1;
        ASSERT_OK(store_->SetLosses(stream.id, losses));
      } else {
        model::Update update;
        update.object = {{"learning_rate", 0.001}, {"model", {{"layers", 4}}}};
        ASSERT_OK(store_->Apply(stream.id, update, kStart));
      }
      ASSERT_OK(store_->EndStream(stream.id, model::StreamState::kFinished, 0, "", kStart));
    }
    ASSERT_OK(store_->DefineRunShape(run_, 1, std::vector<std::string>{"train/loss", "lr"}));
    ASSERT_OK(store_->AppendRunRows(run_, MakeBatch(0, 5)));
    ASSERT_OK(store_->SetLastStep(run_, 40));
    ASSERT_OK(store_->CloseRun(run_, model::RunState::kFinished, 0, "", kStart + 60000000));
    model::Delivery delivery;
    delivery.run = run_;
    delivery.kind = "wandb";
    delivery.delivered_rows = 3;
    delivery.refused_rows = 1;
    delivery.last_error = "HTTP 503: overloaded";
    ASSERT_OK(store_->PutDelivery(delivery));
    model::DeadLetter letter;
    letter.run = run_;
    letter.kind = "wandb";
    letter.row = 2;
    letter.time_us = kStart;
    letter.answer = "HTTP 400: bad key";
    letter.content = "{\"a\":1}";
    ASSERT_OK(store_->AddDeadLetter(letter));
  }

  void MakeRunningRun() {
    live_ = Attach("job2", 0, "other", "local", kStart + 3600000000);
    ASSERT_OK(store_->DefineRunShape(live_.run, 1, std::vector<std::string>{"loss", "note,x"}));
    model::Batch batch = MakeBatch(0, 2);
    batch.blocks[0].values[0] = std::nan("");
    batch.blocks[0].texts = {{1, "text", "say \"hi\""}};
    ASSERT_OK(store_->AppendRunRows(live_.run, batch));
    ASSERT_OK(store_->SetLastStep(live_.run, 10));
  }

  const TempDir dir_;
  std::unique_ptr<storage::Store> store_;
  int64_t run_ = 0;
  model::Stream live_;
  ChildProcess::Options options_ = {
      .environment = {{"LC_ALL", "C.UTF-8"}, {"TZ", "UTC"}},
      .unset = {"RANKLOG_STATE_DIR", "XDG_STATE_HOME", "RANKLOG_ADDRESS", "WANDB_API_KEY"},
      .output = ""};
};

TEST_F(CliTest, HelpAndVersionAreOfEveryCommand) {
  EXPECT_THAT(Ranklog({"--version"}).output, StartsWith("ranklog 0."));
  EXPECT_THAT(Ranklog({"--help"}).output, HasSubstr("Examples:"));
  for (const char* command :
       {"status", "runs", "show", "tail", "export", "sync", "verify", "dead"}) {
    const Finished help = Ranklog({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.output,
                AllOf(HasSubstr("Examples:"), HasSubstr(absl::StrCat("ranklog ", command))));
  }
}

TEST_F(CliTest, WrongUsageIsTwo) {
  EXPECT_EQ(Ranklog({}).code, 2);
  EXPECT_EQ(Ranklog({"nonsense"}).code, 2);
  EXPECT_EQ(Ranklog({"runs", "--nonsense"}).code, 2);
  EXPECT_EQ(Ranklog({"show"}).code, 2);
  EXPECT_EQ(Ranklog({"export", "latest", "--format", "xml"}).code, 2);
  EXPECT_EQ(Ranklog({"show", "latest", "--height", "1"}).code, 2);
  EXPECT_EQ(Ranklog({"tail", "latest", "-n", "many"}).code, 2);
  EXPECT_EQ(Ranklog({"runs", "--address", "unix:/x"}).code, 2) << "beside --state-dir";
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "runs", "--address", "localhost:1"}, options_).code, 2);
}

TEST_F(CliTest, WhatItDoesNotKnowIsNamed) {
  const auto refused = [this](const std::vector<std::string>& args) {
    const Finished finished = Ranklog(args);
    EXPECT_EQ(finished.code, 2) << args[0];
    return finished.output;
  };
  EXPECT_THAT(refused({"nonsense"}), AllOf(HasSubstr("'nonsense'"), HasSubstr("status, runs, show"),
                                           HasSubstr("ranklog --help")));
  EXPECT_THAT(refused({"--nonsense"}),
              AllOf(HasSubstr("no option '--nonsense'"), HasSubstr("--help")));
  for (const char* command : {"runs", "status", "sync"}) {
    EXPECT_THAT(refused({command, "--nonsense"}),
                AllOf(HasSubstr("--nonsense"), HasSubstr("--help")));
  }
  EXPECT_THAT(Ranklog({}).output, HasSubstr("no command was given"));
}

TEST_F(CliTest, AnUnknownRunIsOneAndListsThoseThatAre) {
  for (const char* command : {"show", "tail", "export", "verify", "dead"}) {
    const Finished finished = Ranklog({command, "nothing"});
    EXPECT_EQ(finished.code, 1) << command;
    EXPECT_THAT(finished.output, AllOf(HasSubstr("'nothing'"), HasSubstr("gpt:job1"))) << command;
  }
}

TEST_F(CliTest, NoStoreIsOneAndSaysWhatToDo) {
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

TEST_F(CliTest, ADaemonThatDoesNotAnswerIsOne) {
  const Finished finished =
      RunToEnd({RANKLOG_CLI, "runs", "--address", "unix:" + dir_.File("no.sock")}, options_);
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("no.sock"));
}

TEST_F(CliTest, TheStateDirectoryMayComeFromTheEnvironment) {
  options_.environment["RANKLOG_STATE_DIR"] = state_dir();
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "runs"}, options_).code, 0);
}

TEST_F(CliTest, RunsAsJsonHasTheFieldsThatScriptsReadInTheirOrder) {
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
  EXPECT_EQ(run["project"], "gpt");
  EXPECT_EQ(run["strategy"], "main");
  EXPECT_EQ(run["state"], "finished");
  EXPECT_EQ(run["rows"], 5);
  EXPECT_EQ(run["last_step"], 40);
  ASSERT_THAT(run["ranks"], SizeIs(2));
  EXPECT_EQ(run["ranks"][0]["lost"], 0);
  EXPECT_EQ(run["ranks"][1], Parse(R"({"rank":1,"rows":4,"lost":3,"losses":{"ring_full":2,
      "invalid":0,"step_behind":1,"too_large":0,"after_finish":0,"with_store":0},"late_rows":1})"));
  ASSERT_THAT(run["destinations"], SizeIs(1));
  EXPECT_EQ(run["destinations"][0]["kind"], "wandb");
  EXPECT_EQ(run["destinations"][0]["delivered_rows"], 2);
  EXPECT_EQ(run["destinations"][0]["pending_rows"], 2);
  EXPECT_EQ(run["destinations"][0]["refused_rows"], 1);
  EXPECT_EQ(runs[0]["destinations"][0]["pending_rows"], 0) << "local has every row";
}

TEST_F(CliTest, RunsIsATable) {  // S37
  const Finished finished = Ranklog({"runs"});
  EXPECT_EQ(finished.code, 0);
  const std::vector<std::string> lines = Lines(finished.output);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], StartsWith("RUN"));
  EXPECT_THAT(lines[1], StartsWith("job2"));
  EXPECT_THAT(lines[2], AllOf(StartsWith("job1"), HasSubstr("finished"),
                              HasSubstr("wandb 2 +2 (1 refused)")));
  EXPECT_THAT(finished.output, Not(HasSubstr("\x1b"))) << "no colours into a file";
}

TEST_F(CliTest, RunsCanBeNarrowedDown) {
  EXPECT_THAT(RanklogJson({"runs", "--state", "running"}), SizeIs(1));
  EXPECT_THAT(RanklogJson({"runs", "--project", "none"}), SizeIs(0));
}

TEST_F(CliTest, StatusCountsWhatIsWhere) {  // S37
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

TEST_F(CliTest, StatusNamesTheHolderOfTheStore) {
  ASSERT_OK_AND_ASSIGN(const storage::StateLock lock, storage::StateLock::Acquire(state_dir()));
  const Json status = RanklogJson({"status"});
  EXPECT_EQ(status["daemon"]["running"], true);
  EXPECT_EQ(status["daemon"]["pid"], getpid());
}

TEST_F(CliTest, ShowDrawsTheMainMetrics) {  // S37
  const Finished unicode = Ranklog({"show", "tiny"});
  EXPECT_EQ(unicode.code, 0) << unicode.output;
  EXPECT_THAT(unicode.output,
              AllOf(HasSubstr("finished"), HasSubstr("learning_rate"), HasSubstr("train/loss"),
                    HasSubstr("rank 1: 4 rows logged, 3 lost (ring_full 2, step_behind 1), 1 late"),
                    HasSubstr("┤"), HasSubstr("\u2840")));
  const Finished ascii = Ranklog({"show", "tiny", "--ascii", "--width", "60"});
  EXPECT_THAT(ascii.output, AllOf(HasSubstr("|"), Not(HasSubstr("┤"))));
  options_.environment["LC_ALL"] = "C";
  EXPECT_THAT(Ranklog({"show", "tiny"}).output, Not(HasSubstr("┤")));
}

TEST_F(CliTest, ShowSaysHowToUploadALocalRun) {
  EXPECT_THAT(Ranklog({"show", "other"}).output, HasSubstr("`ranklog sync job2 --to wandb`"));
  EXPECT_THAT(Ranklog({"show", "tiny"}).output,
              AllOf(Not(HasSubstr("--to wandb")), HasSubstr("layers 4")));
}

TEST_F(CliTest, ShowDrawsTheMetricThatIsAskedFor) {
  EXPECT_THAT(Ranklog({"show", "tiny", "--metric", "lr"}).output,
              AllOf(HasSubstr("lr  last 4"), Not(HasSubstr("train/loss  last"))));
  const Finished unknown = Ranklog({"show", "tiny", "--metric", "nope"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.output, AllOf(HasSubstr("'nope'"), HasSubstr("train/loss, lr")));
}

TEST_F(CliTest, ShowAsJsonHasConfigSummaryAndLastValues) {
  const Json run = RanklogJson({"show", "job1"});
  EXPECT_EQ(run["state"], "finished");
  EXPECT_EQ(run["config"]["learning_rate"], 0.001);
  EXPECT_EQ(run["config"]["model"]["layers"], 4);
  EXPECT_EQ(run["summary"]["lr"], 4);
  EXPECT_EQ(run["metrics"]["train/loss"]["last"], 0.2);
  EXPECT_EQ(run["metrics"]["train/loss"]["max"], 1);
  EXPECT_EQ(run["metrics"]["train/loss"]["step"], 40);
}

TEST_F(CliTest, ExportWritesARowPerLine) {  // S37
  const Finished finished = Ranklog({"export", "tiny"});
  EXPECT_EQ(finished.code, 0);
  const std::vector<std::string> lines = Lines(finished.output);
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[0], R"({"_step":0,"_timestamp":1700000000,"train/loss":1,"lr":0})");
  EXPECT_EQ(lines[1], R"({"_step":10,"_timestamp":1700000000.5,"train/loss":0.5,"lr":1})");
  EXPECT_EQ(Parse(lines[2])["train/loss"], 1.0 / 3) << "reads back as the same double";
}

TEST_F(CliTest, ExportSpellsNaNAndKeepsTexts) {
  const std::vector<std::string> lines = Lines(Ranklog({"export", "latest"}).output);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr("\"loss\":NaN"));
  EXPECT_THAT(lines[1], HasSubstr(R"("text":"say \"hi\"")"));
}

TEST_F(CliTest, ExportAsCsvHasTheUnionOfColumns) {
  EXPECT_EQ(Ranklog({"export", "latest", "--format", "csv"}).output,
            "_step,_timestamp,loss,\"note,x\",text\r\n"
            "0,1700000000,NaN,0,\r\n"
            "10,1700000000.5,0.5,1,\"say \"\"hi\"\"\"\r\n");
}

TEST_F(CliTest, ExportRawIsInTheOrderOfRankAndSeq) {
  const std::vector<std::string> lines = Lines(Ranklog({"export", "tiny", "--raw"}).output);
  ASSERT_THAT(lines, SizeIs(9));
  std::vector<std::pair<int, int>> order;
  for (const std::string& line : lines) {
    const Json row = Parse(line);
    order.emplace_back(row["rank"], row["seq"]);
    EXPECT_TRUE(row["values"].contains("train/loss")) << line;
  }
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  const Json first = Parse(lines[0]);
  EXPECT_EQ(first["seq"], 1);
  EXPECT_EQ(first["step"], 0);
  EXPECT_EQ(first["timestamp"], 1700000000);
  EXPECT_EQ(first["stream"], "00000000000000a0");
}

TEST_F(CliTest, ExportWritesIntoAFile) {
  const std::string path = dir_.File("out.jsonl");
  EXPECT_EQ(Ranklog({"export", "tiny", "--output", path}).code, 0);
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(Lines(text), SizeIs(5));
  EXPECT_EQ(Ranklog({"export", "tiny", "--output", dir_.File("no/such/dir")}).code, 1);
  EXPECT_EQ(Ranklog({"export", "tiny", "--output", "/dev/full"}).code, 1);
}

TEST_F(CliTest, TailShowsTheLastRowsOfARunThatHasEnded) {
  const Finished finished = Ranklog({"tail", "tiny", "-n", "2"});
  EXPECT_EQ(finished.code, 0);
  const std::vector<std::string> lines = Lines(finished.output);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[1], "22:13:22  40  train/loss 0.2  lr 4");
  EXPECT_EQ(Lines(Ranklog({"tail", "tiny", "--json"}).output).size(), 5);
}

TEST_F(CliTest, TailFollowsUntilTheRunHasEnded) {  // S37
  const std::string output = dir_.File("tail");
  ChildProcess::Options options = options_;
  options.output = output;
  ChildProcess tail({RANKLOG_CLI, "tail", "other", "--json", "--state-dir", state_dir()}, options);
  ASSERT_TRUE(testing::WaitFor([&] { return absl::StrContains(tail.Output(), "\"_step\":10"); }));

  ASSERT_OK(store_->Begin());
  model::Batch batch = MakeBatch(2, 1);
  batch.blocks[0].steps[0] = 77;
  ASSERT_OK(store_->AppendRunRows(live_.run, batch));
  ASSERT_OK(store_->Commit());
  ASSERT_TRUE(testing::WaitFor([&] { return absl::StrContains(tail.Output(), "\"_step\":77"); }));

  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->EndStream(live_.id, model::StreamState::kFinished, 1, "", kStart));
  ASSERT_OK(store_->CloseRun(live_.run, model::RunState::kFailed, 1, "", kStart));
  ASSERT_OK(store_->Commit());
  EXPECT_EQ(tail.Wait(), 0);
}

TEST_F(CliTest, TailWithoutFollowingEndsThoughTheRunGoesOn) {
  const Finished finished = Ranklog({"tail", "other", "--no-follow"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(Lines(finished.output), SizeIs(2));
}

TEST_F(CliTest, SyncWithoutAKeySaysWhereToPutOne) {
  store_.reset();
  options_.environment["HOME"] = dir_.path();
  options_.unset.push_back("NETRC");
  const Finished finished = Ranklog({"sync"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, AllOf(HasSubstr("WANDB_API_KEY"), HasSubstr(".netrc")));
}

TEST_F(CliTest, SyncSaysWhatIsLeftAndWhy) {
  store_.reset();
  options_.environment["WANDB_API_KEY"] = std::string(40, 'a');
  const Finished finished = Ranklog({"sync", "--timeout", "500ms"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("gpt:job1  wandb  2 of 5 rows delivered, 1 refused"),
                    HasSubstr("2 left"), HasSubstr("127.0.0.1"), HasSubstr("1 of 2 runs stay on")));
}

TEST_F(CliTest, SyncOfALocalRunAsksForADestination) {
  store_.reset();
  const Finished finished = Ranklog({"sync", "other"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("--to wandb"));
}

TEST_F(CliTest, SyncFollowsTheDaemonThatHoldsTheStore) {
  ASSERT_OK_AND_ASSIGN(const storage::StateLock lock, storage::StateLock::Acquire(state_dir()));
  ChildProcess sync({RANKLOG_CLI, "sync", "--state-dir", state_dir()}, options_);
  model::Delivery delivery;
  delivery.run = run_;
  delivery.kind = "wandb";
  delivery.delivered_rows = 5;
  delivery.complete = true;
  ASSERT_TRUE(testing::WaitFor([&] { return absl::StrContains(sync.Output(), "HTTP 503"); }));
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->PutDelivery(delivery));
  ASSERT_OK(store_->Commit());
  EXPECT_EQ(sync.Wait(), 0) << sync.Output();
  EXPECT_THAT(sync.Output(), HasSubstr("5 of 5 rows delivered"));
  EXPECT_EQ(Ranklog({"sync", "other", "--to", "wandb"}).code, 1) << "only the holder may write";
}

TEST_F(CliTest, DeadListsWhatWasRefused) {
  const Json letters = RanklogJson({"dead", "tiny"});
  ASSERT_THAT(letters, SizeIs(1));
  EXPECT_EQ(letters[0]["row"], 2);
  EXPECT_EQ(letters[0]["answer"], "HTTP 400: bad key");
  EXPECT_THAT(Ranklog({"dead", "other"}).output, HasSubstr("nothing"));
}

}  // namespace
}  // namespace ranklog
