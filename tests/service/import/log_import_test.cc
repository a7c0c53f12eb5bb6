#include "service/import/log_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <memory>
#include <string>
#include <vector>

#include "service/aggregate/run_config.h"
#include "service/deliver/json/json_writer.h"
#include "tests/service/import/log_builder.h"
#include "tests/service/storage/store_fixture.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"

namespace ranklog::imports {
namespace {

using ::ranklog::testing::LogBuilder;
using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Pair;
using ::testing::SizeIs;

class LogImportTest : public testing::StoreTest {
 protected:
  std::unique_ptr<LogImport> Open(const LogBuilder& log) {
    const RunLog read = ReadRunLog(log.path()).value();
    auto import = LogImport::Open(
        read, {.target = TargetOf(read, {}), .state_dir = dir_.path(), .kind = "wandb"});
    EXPECT_OK(import);
    return *std::move(import);
  }
  void Begin(LogImport* import) {
    EXPECT_OK(import->CheckOrder(*reader_));
    Do([&] { EXPECT_OK(import->Begin(*store_)); });
    EXPECT_OK(import->Prepare(*reader_));
  }
  // Reads parts of `bytes`, at most `parts` of them.
  void Read(LogImport* import, size_t bytes = 1 << 20, int parts = 1 << 20) {
    while (parts-- > 0 && import->Read(bytes).value()) {
      Do([&] { EXPECT_OK(import->Apply(*store_)); });
      import->Clear();
    }
  }
  void End(LogImport* import) {
    Do([&] { EXPECT_OK(import->End(*store_)); });
  }
  // All of it. Returns what was found.
  LogImport::Findings Import(const LogBuilder& log, size_t bytes = 1 << 20) {
    const std::unique_ptr<LogImport> import = Open(log);
    Begin(import.get());
    if (import->IsImported()) return {};
    Read(import.get(), bytes);
    End(import.get());
    return import->findings();
  }

  model::Run TheRun() { return reader_->Runs().value().at(0); }
  std::vector<model::Stream> Streams() { return reader_->Streams(TheRun().id).value(); }
  std::vector<model::StoredItem> Items() { return reader_->Items(TheRun().id, 0).value(); }
  std::string ConfigText() {
    return deliver::ToJsonText(aggregate::RunConfig(TheRun(), Streams(), Items()));
  }
  std::string SummaryText() {
    model::Json summary = model::Json::object();
    for (const aggregate::SummaryValue& value : aggregate::SummaryValues(Streams(), Items())) {
      summary[value.key] = value.value;
    }
    return deliver::ToJsonText(summary);
  }
  // The steps of the rows of the newest stream.
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const model::Batch& batch : BatchesOf(Streams().back().id)) {
      model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t) {
        steps.push_back(block.steps[row]);
      });
    }
    return steps;
  }
};

TEST_F(LogImportTest, KeepsValuesOfRows) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run().Row(3, {{"loss", "0.5"},
                    {"big", "9007199254740993"},
                    {"text", "\"x y\""},
                    {"list", "[1, 2]"},
                    {"train>loss", "1"},
                    {"train>more>acc", "NaN"}});
  Import(log);
  const std::vector<model::Batch> batches = BatchesOf(Streams()[0].id);
  ASSERT_THAT(batches, SizeIs(1));
  ASSERT_THAT(batches[0].blocks, SizeIs(1));
  const model::Block& block = batches[0].blocks[0];
  EXPECT_THAT(block.steps, ElementsAre(3));
  EXPECT_THAT(block.times_us, ElementsAre((LogBuilder::kStart + 3) * 1000000 + 250000));
  EXPECT_THAT(block.values, ElementsAre(0.5, 3.125));
  EXPECT_THAT(reader_->Shapes(Streams()[0].id).value()[block.shape],
              ElementsAre("loss", "_runtime"));
  EXPECT_THAT(
      block.texts,
      ElementsAre(model::Text{0, "big", "9007199254740993", true},
                  model::Text{0, "text", "x y", false}, model::Text{0, "list", "[1,2]", true},
                  model::Text{0, "train", R"({"loss":1,"more":{"acc":NaN}})", true}));
}

TEST_F(LogImportTest, LastOfRepeatedKeysCounts) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run().Row(0, {{"a", "1"}, {"b", "2"}, {"a", "3"}});
  Import(log);
  EXPECT_THAT(BatchesOf(Streams()[0].id)[0].blocks[0].values, ElementsAre(3, 2, 0.125));
}

TEST_F(LogImportTest, OrderOfKeysMakesNoNewShape) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run().Row(0, {{"a", "1"}, {"b", "2"}}).Row(1, {{"b", "4"}, {"a", "3"}});
  Import(log);
  const model::Block block = BatchesOf(Streams()[0].id)[0].blocks[0];
  EXPECT_THAT(block.values, ElementsAre(1, 2, 0.125, 3, 4, 1.125));
}

TEST_F(LogImportTest, ConfigAndSummaryAreThoseAtTheEnd) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run({{"lr", "0.1"}, {"opt", R"({"name": "adam"})"}, {"_wandb", "{}"}});
  log.Summary({{"loss", "3"}}).Config({{"lr", "0.2"}, {"opt>beta", "0.9"}});
  log.Summary({{"loss", "2"}, {"acc>max", "5"}, {"_wandb>runtime", "12"}}).Exit();
  Import(log, /*bytes=*/1);
  EXPECT_EQ(ConfigText(), R"({"lr":0.2,"opt":{"name":"adam","beta":0.9}})") << "no rank is added";
  EXPECT_EQ(SummaryText(), R"({"loss":2,"acc":{"max":5},"_wandb":{"runtime":12}})");
}

TEST_F(LogImportTest, RunHasItsIdentityAndEnd) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run().Rows(0, 3);
  wandb_internal::Record change;
  change.mutable_run()->set_display_name("renamed");
  change.mutable_run()->set_notes("why");
  change.mutable_run()->add_tags("t");
  log.Add(change).Exit(7);
  Import(log);
  const model::Run run = TheRun();
  EXPECT_EQ(run.run_id, "a");
  EXPECT_EQ(run.project, "gpt");
  EXPECT_EQ(run.name, "renamed");
  EXPECT_EQ(run.settings.entity, "fake-team");
  EXPECT_EQ(run.settings.notes, "why");
  EXPECT_THAT(run.settings.tags, ElementsAre("t"));
  EXPECT_EQ(run.settings.host, "node-1");
  EXPECT_EQ(run.settings.start_time_us, LogBuilder::kStart * 1000000);
  EXPECT_TRUE(run.settings.imported);
  const model::Stream stream = Streams()[0];
  EXPECT_EQ(stream.state, model::StreamState::kFinished);
  EXPECT_EQ(stream.exit_code, 7);
  EXPECT_EQ(stream.ended_us, (LogBuilder::kStart + 2) * 1000000 + 250000);
}

TEST_F(LogImportTest, LogWithoutExitIsCrash) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run().Rows(0, 3).Torn();
  const LogImport::Findings findings = Import(log);
  EXPECT_TRUE(findings.torn);
  EXPECT_THAT(findings.damage, HasSubstr("run-a.wandb"));
  EXPECT_EQ(Streams()[0].state, model::StreamState::kCrashed);
  EXPECT_EQ(Streams()[0].exit_code, 1);
  EXPECT_THAT(Streams()[0].reason, HasSubstr("no exit"));
  EXPECT_EQ(Streams()[0].durable_seq, 3);
}

TEST_F(LogImportTest, InterruptedImportContinues) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run({{"lr", "1"}, {"opt", R"({"a": 1})"}});
  for (int step = 0; step < 50; ++step) {
    log.Row(step, {{step % 2 == 0 ? "even" : "odd", "1"}})
        .Summary({{"last", std::to_string(step)}});
    if (step == 40) log.Config({{"opt>b", "2"}});
  }
  log.Exit();
  for (const int parts : {1, 3, 2}) {
    const std::unique_ptr<LogImport> import = Open(log);
    Begin(import.get());
    Read(import.get(), /*bytes=*/1000, parts);
  }
  EXPECT_LT(Streams()[0].durable_seq, 50);
  Import(log);
  std::vector<int64_t> all(50);
  for (int step = 0; step < 50; ++step) all[step] = step;
  EXPECT_EQ(Steps(), all);
  EXPECT_EQ(ConfigText(), R"({"lr":1,"opt":{"a":1,"b":2}})");
  EXPECT_EQ(SummaryText(), R"({"last":49})");
  Import(log);
  EXPECT_EQ(Steps(), all) << "a finished log is not imported again";
  EXPECT_OK(reader_->Check());
}

TEST_F(LogImportTest, LogThatHasGrownContinues) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run().Rows(0, 3).Summary({{"x", "1"}});
  Import(log);
  log.Rows(3, 5).Summary({{"x", "2"}}).Exit();
  Import(log);
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(SummaryText(), R"({"x":2})");
  EXPECT_EQ(Streams()[0].state, model::StreamState::kFinished);
}

TEST_F(LogImportTest, PartsOfResumedRunAreOneRun) {
  LogBuilder first(dir_.path(), "offline-run-1", "a");
  first.Run().Rows(0, 3);
  LogBuilder second(dir_.path(), "offline-run-2", "a");
  second.Run({}, /*start=*/100).Rows(3, 5).Exit();
  Import(first);
  Import(second);
  EXPECT_THAT(reader_->Runs().value(), SizeIs(1));
  ASSERT_THAT(Streams(), SizeIs(2));
  EXPECT_EQ(Streams()[1].attempt, 2);
}

// The official client cannot know offline where the run was.
TEST_F(LogImportTest, PartWhoseStepsCountAnewFollows) {
  LogBuilder first(dir_.path(), "offline-run-1-a", "a");
  first.Run().Row(0, {{"x", "1"}}).Row(9, {{"x", "1"}});
  LogBuilder second(dir_.path(), "offline-run-2-a", "a");
  second.Run({}, /*start=*/100).Rows(0, 300).Exit();
  Import(first);
  {
    const std::unique_ptr<LogImport> import = Open(second);
    Begin(import.get());
    Read(import.get(), /*bytes=*/1000, /*parts=*/3);
    EXPECT_THAT(Steps(), SizeIs(Lt(300)));
  }
  Import(second);  // continues
  const std::vector<int64_t> steps = Steps();
  ASSERT_THAT(steps, SizeIs(300));
  for (int64_t row = 0; row < 300; ++row) EXPECT_EQ(steps[static_cast<size_t>(row)], 10 + row);
}

TEST_F(LogImportTest, StepsOfPartMayBeGiven) {
  LogBuilder first(dir_.path(), "offline-run-1-a", "a");
  first.Run().Rows(0, 10);
  Import(first);
  LogBuilder again(dir_.path(), "offline-run-2-a", "a");
  again.Run({}, /*start=*/100).Rows(8, 12);  // from a checkpoint
  Import(again);
  EXPECT_THAT(Steps(), ElementsAre(8, 9, 10, 11));
  LogBuilder resumed(dir_.path(), "offline-run-3-a", "a");
  resumed.Run({}, /*start=*/200, /*resume=*/true).Rows(10, 12).Row(20, {});  // as the client does
  Import(resumed);
  EXPECT_THAT(Steps(), ElementsAre(12, 13, 20));
}

TEST_F(LogImportTest, EarlierPartMustNotComeLater) {
  LogBuilder first(dir_.path(), "offline-run-1", "a");
  first.Run().Rows(0, 3);
  LogBuilder second(dir_.path(), "offline-run-2", "a");
  second.Run({}, /*start=*/100).Rows(3, 5).Exit();
  Import(second);
  EXPECT_THAT(Open(first)->CheckOrder(*reader_), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(LogImportTest, TakesSystemMetricsAndConsole) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run().Stats(15, {{"cpu", "12.5"}, {"gpu.0.gpu/l:n", "3"}, {"text", "\"x\""}});
  log.Print(16, false, "a\nprogress 1").Print(17, false, "\rprogress 2\n").Print(18, true, "oh\n");
  log.Exit();
  Import(log, /*bytes=*/60);
  const auto samples = reader_->Samples(TheRun().id, 0, 10).value();
  ASSERT_THAT(samples, SizeIs(1));
  EXPECT_EQ(samples[0].time_us, (LogBuilder::kStart + 15) * 1000000);
  EXPECT_THAT(samples[0].values, ElementsAre(Pair("cpu", 12.5), Pair("gpu.0.gpu/l:n", 3)));
  const auto lines = reader_->ConsoleLines(TheRun().id, 0, 0, 10).value();
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[1].line.text, "progress 2");
  EXPECT_TRUE(lines[2].line.error);
  EXPECT_EQ(lines[2].line.time_us, (LogBuilder::kStart + 18) * 1000000);
  EXPECT_OK(reader_->Check());
}

TEST_F(LogImportTest, InterruptedImportRepeatsNoSampleAndLine) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.Run();
  for (int i = 0; i < 20; ++i) {
    log.Stats(i, {{"cpu", "1"}}).Print(i, false, "line " + std::to_string(i) + "\n");
  }
  log.Exit();
  for (const int parts : {2, 3}) {
    const std::unique_ptr<LogImport> import = Open(log);
    Begin(import.get());
    Read(import.get(), /*bytes=*/200, parts);
  }
  Import(log);
  EXPECT_THAT(reader_->Samples(TheRun().id, 0, 100).value(), SizeIs(20));
  const auto lines = reader_->ConsoleLines(TheRun().id, 0, 0, 100).value();
  ASSERT_THAT(lines, SizeIs(20));
  EXPECT_EQ(lines[19].line.text, "line 19");
  EXPECT_EQ(lines[19].id, 20) << "no line was written anew";
}

TEST_F(LogImportTest, TakesDefinitionsAlertsAndFacts) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  wandb_internal::Record metric;
  metric.mutable_metric()->set_glob_name("val/*");
  metric.mutable_metric()->set_step_metric("epoch");
  metric.mutable_metric()->mutable_options()->set_step_sync(true);
  metric.mutable_metric()->mutable_summary()->set_max(true);
  wandb_internal::Record alert;
  alert.mutable_alert()->set_title("t");
  alert.mutable_alert()->set_wait_duration(30000);
  wandb_internal::Record facts;
  facts.mutable_environment()->set_cpu_count(2);
  (*facts.mutable_environment()->mutable_disk())["/"].set_total(5);
  wandb_internal::Record git;
  git.mutable_environment()->mutable_git()->set_remote_url("url");
  log.Run().Add(metric).Add(alert).Add(facts).Add(git).Exit();
  Import(log);
  const std::vector<model::StoredItem> items = Items();
  ASSERT_THAT(items, SizeIs(3));
  const model::MetricDefinition& definition = items[0].item.metric;
  EXPECT_EQ(definition.name, "val/*");
  EXPECT_EQ(definition.step_metric, "epoch");
  EXPECT_TRUE(definition.step_sync);
  EXPECT_THAT(definition.summary, ElementsAre("max"));
  EXPECT_EQ(deliver::ToJsonText(items[1].item.object),
            R"({"title":"t","text":"","level":"","wait_ms":30000})");
  EXPECT_EQ(deliver::ToJsonText(items[2].item.object),
            R"({"cpu_count":2,"disk":{"/":{"total":"5"}},"git":{"remote":"url"}})");
}

// Those before 0.20 write no `environment` record.
TEST_F(LogImportTest, TakesFactsFromFileOfOldLog) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.File("wandb-metadata.json", R"({"host":"node-1","gpu_count":8})");
  log.Run().Saved("wandb-metadata.json").Row(0, {{"loss", "1"}}).Exit();
  EXPECT_THAT(Import(log).absent, IsEmpty());
  const std::vector<model::StoredItem> items = Items();
  ASSERT_THAT(items, SizeIs(1));
  EXPECT_EQ(deliver::ToJsonText(items[0].item.object), R"({"host":"node-1","gpu_count":8})");
}

TEST_F(LogImportTest, StagesFiles) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.File("now.txt", "now").File("sub/live.txt", "old");
  log.Run().Saved("now.txt").Saved("sub/live.txt", wandb_internal::FilesItem::LIVE);
  log.Saved("config.yaml").Saved("../secret").Saved("absent.txt");
  const std::unique_ptr<LogImport> import = Open(log);
  Begin(import.get());
  Read(import.get());
  log.File("sub/live.txt", "newer").Exit();
  Read(import.get());
  End(import.get());
  EXPECT_THAT(import->findings().absent,
              ElementsAre(HasSubstr("file ../secret: outside"), HasSubstr("file absent.txt")));
  std::vector<std::string> files;
  for (const model::StoredItem& stored : Items()) {
    const model::Json& object = stored.item.object;
    files.push_back(
        object["path"].get<std::string>() + "=" +
        testing::FileContent(dir_.path() + "/content/" + object["file"].get<std::string>()));
  }
  EXPECT_THAT(files, ElementsAre("now.txt=now", "sub/live.txt=old", "sub/live.txt=newer"));
}

TEST_F(LogImportTest, StagesArtifacts) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.File("data.bin", "12345");
  wandb_internal::Record record;
  wandb_internal::ArtifactRecord& artifact = *record.mutable_artifact();
  artifact.set_name("data");
  artifact.set_type("dataset");
  artifact.set_client_id("c1");
  artifact.set_metadata(R"({"rows": 1})");
  artifact.add_aliases("best");
  auto* entry = artifact.mutable_manifest()->add_contents();
  entry->set_path("d/data.bin");
  entry->set_local_path(log.dir() + "/files/data.bin");
  entry = artifact.mutable_manifest()->add_contents();
  entry->set_path("ref");
  entry->set_ref("http://x/y");
  log.Run().Add(record);
  artifact.set_name("gone");
  artifact.mutable_manifest()->mutable_contents(0)->set_local_path("/absent");
  log.Add(record).Exit();
  const LogImport::Findings findings = Import(log);
  EXPECT_THAT(findings.absent, ElementsAre(HasSubstr("artifact gone: there is no file /absent")));
  const std::vector<model::StoredItem> items = Items();
  ASSERT_THAT(items, SizeIs(1));
  const model::Json& object = items[0].item.object;
  EXPECT_EQ(object["name"], "data");
  EXPECT_EQ(deliver::ToJsonText(object["aliases"]), R"(["best"])");
  EXPECT_EQ(deliver::ToJsonText(object["metadata"]), R"({"rows":1})");
  EXPECT_EQ(object["entries"][1]["ref"], "http://x/y");
  EXPECT_EQ(object["entries"][0]["bytes"], 5);
  EXPECT_EQ(testing::FileContent(dir_.path() + "/content/" +
                                 object["entries"][0]["file"].get<std::string>()),
            "12345");
}

// More than 100,000 files are listed beside the log.
TEST_F(LogImportTest, ReadsListOfFiles) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  log.File("data.bin", "12345");
  const std::string list = dir_.File("list.jl.gz");
  const auto write = [&list](const std::string& text) {
    gzFile file = gzopen(list.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  };
  write(R"({"path": "a", "size": 5, "local_path": ")" + log.dir() + "/files/data.bin\"}\n" +
        R"({"path": "b", "ref": "http://x/y"})" + "\n");
  wandb_internal::Record record;
  record.mutable_artifact()->set_name("data");
  record.mutable_artifact()->mutable_manifest()->set_manifest_file_path(list);
  log.Run().Add(record);
  const std::unique_ptr<LogImport> import = Open(log);
  Begin(import.get());
  Read(import.get());
  EXPECT_THAT(import->findings().absent, IsEmpty());
  const std::vector<model::StoredItem> items = Items();
  ASSERT_THAT(items, SizeIs(1));
  const model::Json& entries = items[0].item.object["entries"];
  EXPECT_EQ(entries[0]["path"], "a");
  EXPECT_EQ(entries[0]["bytes"], 5);
  EXPECT_EQ(entries[1]["ref"], "http://x/y");

  write(R"({"path": "a")");
  log.Add(record);
  Read(import.get());
  std::filesystem::resize_file(list, 20);
  log.Add(record);
  Read(import.get());
  std::filesystem::remove(list);
  log.Add(record);
  Read(import.get());
  EXPECT_THAT(import->findings().absent,
              ElementsAre(HasSubstr("damaged"), HasSubstr("damaged"), HasSubstr("cannot read")));
}

TEST_F(LogImportTest, NamesRecordsThatAreLeftOut) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  wandb_internal::Record other;
  other.mutable_output()->set_line("x");
  wandb_internal::Record tensorboard;
  tensorboard.mutable_tbrecord()->set_log_dir("x");
  wandb_internal::Record use;
  use.mutable_use_artifact()->set_name("data:v0");
  log.Add(tensorboard).Add(use);  // say nothing that another record does not say
  wandb_internal::Record unknown;
  unknown.GetReflection()->MutableUnknownFields(&unknown)->AddLengthDelimited(31)->assign("x");
  log.Run().Add(other).Add(other).Add(unknown).Row(0, {{"a", "{"}}).Exit();
  const LogImport::Findings findings = Import(log);
  EXPECT_THAT(findings.left_out, ElementsAre(Pair("output", 2), Pair("type 31", 1)));
  EXPECT_EQ(findings.not_json, 1);
}

}  // namespace
}  // namespace ranklog::imports
