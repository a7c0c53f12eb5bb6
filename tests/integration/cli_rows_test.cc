// What `ranklog show`, `export` and `tail` print of a run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/integration/cli_fixture.h"
#include "tests/service/storage/builders.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

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

// Adds a row at `step` with the metrics of `shape`, all with the value `value`.
void AddRow(model::Batch* batch, model::Block* block, size_t width, int64_t step, double value) {
  block->offsets.push_back(static_cast<uint32_t>(batch->rows()));
  block->steps.push_back(step);
  block->times_us.push_back(kStart + step);
  block->values.insert(block->values.end(), width, value);
  ++batch->last;
}

// The store groups rows by their lists of keys, so the latest row is not in the last block.
TEST_F(CliTest, ShowPrintsValueOfLatestRow) {
  model::Batch batch;
  batch.first = 2;
  batch.last = 1;
  batch.blocks.resize(2);
  model::Block& loss = batch.blocks[0];
  model::Block& both = batch.blocks[1];
  loss.shape = 2;
  both.shape = 1;
  AddRow(&batch, &loss, 1, 20, 0.25);
  AddRow(&batch, &both, 2, 30, 0.5);
  AddRow(&batch, &loss, 1, 40, 0.75);
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->DefineRunShape(live_.run, 2, std::vector<std::string>{"loss"}));
  ASSERT_OK(store_->AppendRunRows(live_.run, batch));
  ASSERT_OK(store_->SetPosition(live_.run, {.last_step = 40, .furthest_step = 40}));
  ASSERT_OK(store_->Commit());
  const Json shown = RanklogJson({"show", "other"})["metrics"];
  EXPECT_EQ(shown["loss"]["last"], 0.75);
  EXPECT_EQ(shown["loss"]["step"], 40);
  EXPECT_EQ(shown["note,x"]["last"], 0.5);
  EXPECT_EQ(shown["note,x"]["step"], 30);
  EXPECT_THAT(Ranklog({"show", "other"}).output, HasSubstr("loss  last 0.75  min 0.25  max 0.75"));
}

TEST_F(CliTest, ShowSuggestsSyncForLocalRun) {
  EXPECT_THAT(Ranklog({"show", "other"}).output,
              HasSubstr("`ranklog --state-dir " + state_dir() + " sync job2 --to wandb`"));
  EXPECT_THAT(Ranklog({"show", "tiny"}).output,
              AllOf(Not(HasSubstr("--to wandb")), HasSubstr("layers 4")));
}

TEST_F(CliTest, ShowClampsNegativeDurationToZero) {
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->CloseRun(run_, model::RunState::kFinished, 0, "", kStart - 86400000000));
  ASSERT_OK(store_->Commit());
  EXPECT_THAT(Ranklog({"show", "tiny"}).output, HasSubstr("took 0.0 s\n"));
}

// Adds one row of 50 metrics to a running run.
void LogManyMetrics(storage::Store& store, int64_t run) {
  std::vector<std::string> keys;
  for (int i = 0; i < 50; ++i) keys.push_back("layer" + std::to_string(i));
  model::Batch batch = MakeBatch(2, 1);
  batch.blocks[0].shape = 2;
  batch.blocks[0].values.assign(keys.size(), 0.5);
  ASSERT_OK(store.Begin());
  ASSERT_OK(store.DefineRunShape(run, 2, keys));
  ASSERT_OK(store.AppendRunRows(run, batch));
  ASSERT_OK(store.Commit());
}

TEST_F(CliTest, ShowTruncatesLongSummaryWithoutAll) {
  EXPECT_THAT(Ranklog({"show", "other"}).output, Not(HasSubstr("more with --all")));
  LogManyMetrics(*store_, live_.run);
  // Shows 40 of 53: loss, note,x, the text and the 50 layers.
  EXPECT_THAT(Ranklog({"show", "other"}).output,
              AllOf(HasSubstr("\n  layer36"), Not(HasSubstr("\n  layer37")),
                    HasSubstr("\n  13 more with --all\n")));
  EXPECT_THAT(Ranklog({"show", "other", "--all"}).output,
              AllOf(HasSubstr("\n  layer49"), Not(HasSubstr("more with --all"))));
}

TEST_F(CliTest, TailTruncatesWideRowsWithoutAll) {
  LogManyMetrics(*store_, live_.run);
  EXPECT_THAT(Ranklog({"tail", "other", "--no-follow", "-n", "1"}).output,
              AllOf(HasSubstr("layer19 0.5  30 more with --all\n"), Not(HasSubstr("layer20"))));
  EXPECT_THAT(Ranklog({"tail", "other", "--no-follow", "-n", "1", "--all"}).output,
              AllOf(HasSubstr("layer49 0.5\n"), Not(HasSubstr("more"))));
  EXPECT_THAT(Ranklog({"tail", "other", "--no-follow", "-n", "1", "--metric", "layer45"}).output,
              HasSubstr("  layer45 0.5\n"));
}

TEST_F(CliTest, LongTextsAreTruncatedWithoutAll) {
  const std::string text = std::string(9999, 'x') + "END";
  model::Item update;
  update.object = {{"prompt", text}, {"seeds", std::vector<int>(2000, 7)}};
  model::Batch batch = MakeBatch(2, 1);
  batch.blocks[0].texts = {{0, "sample", text}};
  ASSERT_OK(store_->Begin());
  ASSERT_OK(AppendItem(*store_, live_.id, update, kStart));
  ASSERT_OK(store_->AppendRunRows(live_.run, batch));
  ASSERT_OK(store_->Commit());
  EXPECT_THAT(Ranklog({"show", "other"}).output,
              AllOf(HasSubstr("xxx... (10002 bytes)\n"), HasSubstr(",7,7... (4001 bytes)\n"),
                    Not(HasSubstr("END"))));
  EXPECT_THAT(Ranklog({"show", "other", "--all"}).output,
              AllOf(HasSubstr("xxxEND\n"), HasSubstr("7,7]\n"), Not(HasSubstr("bytes)"))));
  const std::vector<std::string> tail = {"tail", "other", "--no-follow", "-n", "1"};
  EXPECT_THAT(Ranklog(tail).output,
              AllOf(HasSubstr("sample xxx"), HasSubstr("xxx... (10002 bytes)\n")));
  std::vector<std::string> all = tail;
  all.push_back("--all");
  EXPECT_THAT(Ranklog(all).output, HasSubstr("xxxEND\n"));
  EXPECT_EQ(RanklogJson({"show", "other"})["config"]["prompt"], text);
}

TEST_F(CliTest, ShowOmitsLastStepWithoutRows) {
  ASSERT_OK(store_->Begin());
  Attach("job3", 0, "empty", "local", kStart);
  ASSERT_OK(store_->Commit());
  EXPECT_THAT(Ranklog({"show", "empty"}).output, HasSubstr("\nrows 0, started "));
}

TEST_F(CliTest, ShowDrawsOnlyRequestedMetric) {
  EXPECT_THAT(Ranklog({"show", "tiny", "--metric", "lr"}).output,
              AllOf(HasSubstr("lr  last 4"), Not(HasSubstr("train/loss  last"))));
  const Finished unknown = Ranklog({"show", "tiny", "--metric", "nope"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.output, AllOf(HasSubstr("'nope'"), HasSubstr("train/loss, lr")));
}

TEST_F(CliTest, ShowJsonHasConfigAndMetrics) {
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

TEST_F(CliTest, ExportPreservesNanAndTexts) {
  const std::vector<std::string> lines = Lines(Ranklog({"export", "latest"}).output);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr("\"loss\":NaN"));
  EXPECT_THAT(lines[1], HasSubstr(R"("text":"say \"hi\"")"));
}

TEST_F(CliTest, CsvExportHasUnionOfColumns) {
  EXPECT_EQ(Ranklog({"export", "latest", "--format", "csv"}).output,
            "_step,_timestamp,loss,\"note,x\",text\r\n"
            "0,1700000000,NaN,0,\r\n"
            "10,1700000000.5,0.5,1,\"say \"\"hi\"\"\"\r\n");
}

TEST_F(CliTest, ExportWritesOnlyRequestedMetrics) {
  const std::vector<std::string> lines =
      Lines(Ranklog({"export", "tiny", "--metric", "lr"}).output);
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[1], R"({"_step":10,"_timestamp":1700000000.5,"lr":1})");
  EXPECT_EQ(Ranklog({"export", "latest", "--format", "csv", "--metric", "text"}).output,
            "_step,_timestamp,text\r\n10,1700000000.5,\"say \"\"hi\"\"\"\r\n");
  const Finished missing = Ranklog({"export", "tiny", "--metric", "lr", "--metric", "rl"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.output, HasSubstr("no row has rl;"));
}

TEST_F(CliTest, RawExportUsesRankSeqOrder) {
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
  EXPECT_THAT(Lines(FileContent(path)), SizeIs(5));
  EXPECT_EQ(Ranklog({"export", "tiny", "--output", dir_.File("no/such/dir")}).code, 1);
  EXPECT_EQ(Ranklog({"export", "tiny", "--output", "/dev/full"}).code, 1);
  const std::string full =
      absl::StrCat(RANKLOG_CLI, " export tiny --state-dir ", state_dir(), " 2>&1 >/dev/full");
  EXPECT_THAT(RunToEnd({"/bin/sh", "-c", full}).output,
              HasSubstr("cannot write the output: No space left on device"));
}

TEST_F(CliTest, TailShowsEndedRunsLastRows) {
  const Finished finished = Ranklog({"tail", "tiny", "-n", "2"});
  EXPECT_EQ(finished.code, 0);
  const std::vector<std::string> lines = Lines(finished.output);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[1], "22:13:22  40  train/loss 0.2  lr 4");
  EXPECT_EQ(Lines(Ranklog({"tail", "tiny", "--json"}).output).size(), 5);
  for (const std::string& row :
       Lines(Ranklog({"tail", "tiny", "--json", "--metric", "lr"}).output)) {
    EXPECT_TRUE(Parse(row).contains("lr")) << row;
    EXPECT_FALSE(Parse(row).contains("train/loss")) << row;
  }
  const Finished missing = Ranklog({"tail", "tiny", "--metric", "lr", "--metric", "rl"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.output, HasSubstr("no row has rl; to list the run's metrics, run: ranklog "));
}

TEST_F(CliTest, TailFollowsUntilRunEnds) {  // S37
  const std::string output = dir_.File("tail");
  ChildProcess::Options options = options_;
  options.output = output;
  ChildProcess tail({RANKLOG_CLI, "tail", "other", "--json", "--state-dir", state_dir()}, options);
  ASSERT_TRUE(WaitFor([&] { return absl::StrContains(tail.Output(), "\"_step\":10"); }));

  ASSERT_OK(store_->Begin());
  model::Batch batch = MakeBatch(2, 1);
  batch.blocks[0].steps[0] = 77;
  ASSERT_OK(store_->AppendRunRows(live_.run, batch));
  ASSERT_OK(store_->Commit());
  ASSERT_TRUE(WaitFor([&] { return absl::StrContains(tail.Output(), "\"_step\":77"); }));

  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->EndStream(live_.id, model::StreamState::kFinished, 1, "", kStart));
  ASSERT_OK(store_->CloseRun(live_.run, model::RunState::kFailed, 1, "", kStart));
  ASSERT_OK(store_->Commit());
  EXPECT_EQ(tail.Wait(), 0);
}

TEST_F(CliTest, TailWithoutFollowExitsDuringRun) {
  const Finished finished = Ranklog({"tail", "other", "--no-follow"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(Lines(finished.output), SizeIs(2));
}

}  // namespace
}  // namespace ranklog::testing
