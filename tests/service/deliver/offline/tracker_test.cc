#include "service/deliver/offline/tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/alert.h"
#include "service/deliver/wandb/api/file_stream.h"
#include "service/deliver/wandb/api/run_files.h"
#include "service/deliver/wandb/api/run_upsert.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::deliver::offline {
namespace {

using ::ranklog::testing::FileContent;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wandb_internal::Record;

constexpr char kConfig[] =
    R"({"lr":{"value":1e-3},"deep":{"value":{"a":[1,NaN]}},"_wandb":{"value":{)"
    R"("t":{"12":"ranklog","13":"linux"},"m":[{"1":"val\\.loss","5":2,"6":[3],"7":[1]},)"
    R"({"1":"epoch","6":[],"7":[]}],"e":{"w":{"host":"n","startedAt":"2026-01-02T03:04:05.5Z",)"
    R"("gpu_count":8,"pid":7}}}}})";

// The type of each record, and what it is about.
std::string Shown(const Record& record) {
  switch (record.record_type_case()) {
    case Record::kHistory: {
      std::vector<std::string> items;
      for (const auto& item : record.history().item()) {
        items.push_back(absl::StrCat(item.key(), "=", item.value_json()));
      }
      return absl::StrCat("row ", record.history().step().num(), " ", absl::StrJoin(items, " "));
    }
    case Record::kSummary: {
      std::string text = "summary";
      for (const auto& item : record.summary().update()) {
        absl::StrAppend(&text, " ", item.key(), "=", item.value_json());
      }
      for (const auto& item : record.summary().remove()) absl::StrAppend(&text, " -", item.key());
      return text;
    }
    case Record::kOutputRaw:
      return absl::StrCat(record.output_raw().output_type() == 0 ? "stderr " : "stdout ",
                          record.output_raw().line());
    case Record::kExit:
      return absl::StrCat("exit ", record.exit().exit_code());
    default:
      return record.GetDescriptor()->FindFieldByNumber(record.record_type_case())->name();
  }
}

class TrackerTest : public ::testing::Test {
 protected:
  void Restart(const std::string& key = "key") {
    tracker_ = std::make_unique<Tracker>(key, [] { return int64_t{1767322787500000}; });
  }
  absl::StatusOr<HttpResponse> Query(std::string body) {
    HttpRequest request;
    request.url = dir_.path() + "/graphql";
    request.body = std::move(body);
    return tracker_->Send(request);
  }
  // Creates or describes the run.
  std::string Describe(wandb::Upsert upsert) {
    upsert.run_id = "run";
    upsert.project = "p";
    const auto answer = Query(wandb::UpsertBody(upsert));
    EXPECT_OK(answer);
    return answer.ok() ? wandb::ParseUpserted(answer->body)->storage_id : "";
  }
  std::string Describe() { return Describe({.config = kConfig}); }
  absl::Status Post(const wandb::StreamPost& post) {
    HttpRequest request;
    request.url = dir_.path() + "/files/e/p/run/file_stream";
    request.body = wandb::StreamBody(post);
    return tracker_->Send(request).status();
  }
  absl::Status PostRows(int64_t from, int rows) {
    std::vector<std::string> lines;
    for (int64_t row = from; row < from + rows; ++row) {
      std::string line = absl::StrCat("{\"loss\":0.5,\"_step\":", row, "}");
      AppendString(line, &lines.emplace_back());
    }
    const std::string history = absl::StrJoin(lines, ",");
    return Post({.history_offset = from, .history = history});
  }
  absl::Status PostConsole(int64_t from, const std::vector<std::string>& lines) {
    wandb::StreamPost post;
    post.console_offset = from;
    for (const std::string& line : lines) {
      post.console.push_back(
          absl::StrCat(R"({"ts":"2026-01-02T03:04:05.5","content":")", line, "\"}"));
    }
    return Post(post);
  }
  absl::Status Put(const std::string& url, const std::string& content) {
    HttpRequest request;
    request.method = "PUT";
    request.url = url;
    request.body = content;
    return tracker_->Send(request).status();
  }

  std::string Log(const std::string& directory) const {
    return dir_.File("wandb/" + directory + "/run-run.wandb");
  }
  std::vector<Record> Records(const std::string& directory = kFirst) const {
    std::vector<Record> records;
    auto reader = wandb_log::LogReader::Open(Log(directory));
    EXPECT_OK(reader);
    if (!reader.ok()) return records;
    while (true) {
      const auto next = (*reader)->Next();
      EXPECT_OK(next);
      if (!next.ok() || !next->has_value()) return records;
      EXPECT_TRUE(records.emplace_back().ParseFromString(**next));
      EXPECT_EQ(records.back().num(), static_cast<int64_t>(records.size()));
    }
  }
  // Without the description at the start.
  std::vector<std::string> Content(const std::string& directory = kFirst) const {
    std::vector<std::string> shown;
    for (const Record& record : Records(directory)) shown.push_back(Shown(record));
    shown.erase(shown.begin(), shown.begin() + 4);
    return shown;
  }

  static constexpr char kFirst[] = "offline-run-20260102_025947-run";
  TempDir dir_;
  std::unique_ptr<Tracker> tracker_;

  void SetUp() override {
    setenv("TZ", "UTC", 1);
    Restart();
  }
};

TEST_F(TrackerTest, LogBeginsWithWhatDescribesTheRun) {
  EXPECT_EQ(Describe({.config = kConfig, .display_name = "n", .group = "g", .tags = {"a", "b"}}),
            absl::StrCat("wandb/", kFirst));
  const std::vector<Record> records = Records();
  ASSERT_THAT(records, SizeIs(4));
  EXPECT_EQ(records[0].header().version_info().min_consumer(), "0.70.0");
  const wandb_internal::RunRecord& run = records[1].run();
  EXPECT_EQ(run.run_id(), "run");
  EXPECT_EQ(run.project(), "p");
  EXPECT_EQ(run.entity(), "");
  EXPECT_EQ(run.display_name(), "n");
  EXPECT_EQ(run.run_group(), "g");
  EXPECT_THAT(run.tags(), ElementsAre("a", "b"));
  EXPECT_EQ(run.start_time().seconds(), 1767322787);
  EXPECT_EQ(run.start_time().nanos(), 500000000);
  ASSERT_EQ(run.config().update_size(), 2);
  EXPECT_EQ(run.config().update(0).key(), "deep");
  EXPECT_EQ(run.config().update(0).value_json(), "{\"a\":[1,NaN]}");
  EXPECT_EQ(run.config().update(1).value_json(), "1e-3");
  EXPECT_EQ(records[2].environment().gpu_count(), 8u);
  EXPECT_EQ(records[2].environment().writer_id(), "w");
  EXPECT_EQ(records[2].environment().started_at().nanos(), 500000000);
  EXPECT_EQ(records[3].metric().name(), "val.loss");
  EXPECT_EQ(records[3].metric().step_metric(), "epoch");
  EXPECT_TRUE(records[3].metric().summary().min());
  EXPECT_EQ(std::filesystem::read_symlink(dir_.File("wandb/latest-run")), kFirst);
  EXPECT_TRUE(std::filesystem::is_directory(dir_.File(absl::StrCat("wandb/", kFirst, "/files"))));
}

TEST_F(TrackerTest, LaterDescriptionAddsWhatChanged) {
  Describe();
  Describe({.config = R"({"lr":{"value":2},"_wandb":{"value":{}}})", .notes = "n"});
  Describe({.config = R"({"lr":{"value":2},"_wandb":{"value":{}}})"});
  const std::vector<Record> records = Records();
  ASSERT_THAT(records, SizeIs(6));
  EXPECT_EQ(records[4].config().update(0).value_json(), "2");
  EXPECT_EQ(records[4].config().remove(0).key(), "deep");
  EXPECT_EQ(records[5].run().notes(), "n");
}

// `wandb sync` appends the lists of a second record.
TEST_F(TrackerTest, LaterFactsDoNotRepeatLists) {
  const auto with = [](const std::string& facts) {
    return absl::StrCat(R"({"_wandb":{"value":{"e":{"w":{"args":["a"],)", facts, "}}}}}");
  };
  Describe({.config = with(R"("host":"n")")});
  Describe({.config = with(R"("host":"n","gpu_count":2)")});
  Describe({.config = with(R"("host":"n","gpu_count":2)")});
  const std::vector<Record> records = Records();
  ASSERT_THAT(records, SizeIs(4));
  EXPECT_EQ(records[2].environment().args_size(), 1);
  EXPECT_EQ(records[3].environment().args_size(), 0);
  EXPECT_EQ(records[3].environment().gpu_count(), 2u);
}

TEST_F(TrackerTest, RepeatedPostAddsNothing) {
  Describe();
  ASSERT_OK(PostRows(0, 2));
  ASSERT_OK(PostRows(0, 2));
  ASSERT_OK(PostRows(1, 2));
  EXPECT_THAT(Content(), ElementsAre("row 0 loss=0.5 _step=0", "row 1 loss=0.5 _step=1",
                                     "row 2 loss=0.5 _step=2"));
}

TEST_F(TrackerTest, NextProcessContinuesTheLog) {
  const std::string id = Describe();
  ASSERT_OK(PostRows(0, 2));
  Restart();
  EXPECT_EQ(Describe(), id);
  ASSERT_OK(PostRows(1, 2));
  EXPECT_THAT(Content(), SizeIs(3));
}

TEST_F(TrackerTest, NextProcessCutsAnIncompleteRecord) {
  Describe();
  ASSERT_OK(PostRows(0, 2));
  std::filesystem::resize_file(Log(kFirst), std::filesystem::file_size(Log(kFirst)) - 3);
  Restart();
  Describe();
  ASSERT_OK(PostRows(0, 3));
  EXPECT_THAT(Content(), ElementsAre("row 0 loss=0.5 _step=0", "row 1 loss=0.5 _step=1",
                                     "row 2 loss=0.5 _step=2"));
}

TEST_F(TrackerTest, DamagedLogStaysAndANewOneBegins) {
  Describe();
  ASSERT_OK(PostRows(0, 2));
  std::string damaged = FileContent(Log(kFirst));
  damaged[damaged.size() - 5] ^= 1;
  std::ofstream(Log(kFirst), std::ios::binary) << damaged;
  Restart();
  Describe();
  ASSERT_OK(PostRows(1, 1));
  EXPECT_EQ(FileContent(Log(kFirst)), damaged);
  EXPECT_THAT(Content(absl::StrCat(kFirst, "-1")), ElementsAre("row 1 loss=0.5 _step=1"));
}

TEST_F(TrackerTest, SummaryHasOnlyWhatChanged) {
  Describe();
  ASSERT_OK(Post({.summary = R"({"loss":{"min":1},"a,b":"x\"}","_step":0})"}));
  ASSERT_OK(Post({.summary = R"({"loss":{"min":1},"_step":1})"}));
  ASSERT_OK(Post({.summary = R"({"loss":{"min":1},"_step":1})"}));
  EXPECT_THAT(Content(),
              ElementsAre(R"(summary _step=0 a,b="x\"}" loss={"min":1})", "summary _step=1 -a,b"));
}

TEST_F(TrackerTest, RepeatedEndAddsNothing) {
  Describe();
  ASSERT_OK(PostRows(0, 1));
  ASSERT_OK(Post({.exit_code = 3}));
  Restart();
  Describe();
  ASSERT_OK(PostRows(0, 1));
  ASSERT_OK(Post({.exit_code = 3}));
  EXPECT_THAT(Content(), ElementsAre("row 0 loss=0.5 _step=0", "exit 3"));
}

TEST_F(TrackerTest, RunThatGoesOnAfterItsEndGetsAnotherDirectory) {
  Describe();
  ASSERT_OK(PostRows(0, 1));
  ASSERT_OK(Post({.summary = R"({"loss":1})", .exit_code = 1}));
  ASSERT_OK(PostRows(1, 1));
  const std::string second = absl::StrCat(kFirst, "-1");
  EXPECT_THAT(Content(second), ElementsAre("summary loss=1", "row 1 loss=0.5 _step=1"));
  EXPECT_EQ(Records(second)[1].run().config().update_size(), 2);
  Restart();
  Describe();
  ASSERT_OK(PostRows(1, 2));
  EXPECT_THAT(Content(second), SizeIs(3));
  EXPECT_THAT(Content(), SizeIs(3));
}

TEST_F(TrackerTest, RunOfAnotherKeyGetsAnotherDirectory) {
  Describe();
  Restart("another");
  EXPECT_EQ(Describe(), absl::StrCat("wandb/", kFirst, "-1"));
}

TEST_F(TrackerTest, RemovedDirectoryIsFollowedByAnother) {
  Describe();
  ASSERT_OK(PostRows(0, 2));
  std::filesystem::remove_all(dir_.File("wandb"));
  ASSERT_OK(PostRows(2, 1));
  EXPECT_THAT(Content(), ElementsAre("row 2 loss=0.5 _step=2"));

  std::filesystem::remove_all(dir_.File("wandb"));
  Restart();
  Describe();
  ASSERT_OK(PostRows(3, 1));
  EXPECT_THAT(Content(), ElementsAre("row 3 loss=0.5 _step=3"));
}

TEST_F(TrackerTest, DotWandbFolderIsPreferred) {
  std::filesystem::create_directory(dir_.File(".wandb"));
  EXPECT_EQ(Describe(), absl::StrCat(".wandb/", kFirst));
}

TEST_F(TrackerTest, SystemMetricsLoseTheirPrefix) {
  Describe();
  const wandb::StreamPost post{
      .events = {R"({"_wandb":true,"_timestamp":1767322800.25,"_runtime":1,"system.cpu":2.5})"}};
  ASSERT_OK(Post(post));
  ASSERT_OK(Post(post));
  const std::vector<Record> records = Records();
  ASSERT_THAT(records, SizeIs(5));
  EXPECT_EQ(records[4].stats().timestamp().seconds(), 1767322800);
  EXPECT_EQ(records[4].stats().timestamp().nanos(), 250000000);
  ASSERT_EQ(records[4].stats().item_size(), 1);
  EXPECT_EQ(records[4].stats().item(0).key(), "cpu");
  EXPECT_EQ(records[4].stats().item(0).value_json(), "2.5");
}

TEST_F(TrackerTest, ChangedConsoleLineIsWrittenOver) {
  Describe();
  ASSERT_OK(PostConsole(0, {"one", "10 %"}));
  ASSERT_OK(PostConsole(1, {"9 %", "three"}));
  Restart();
  Describe();
  ASSERT_OK(PostConsole(0, {"ONE!"}));
  EXPECT_THAT(Content(), ElementsAre("stdout one", "stdout \n10 %", "stdout \r9 % ",
                                     "stdout \nthree", "stdout \x1b[A\x1b[A\rONE!\x1b[B\x1b[B"));
}

TEST_F(TrackerTest, AlertWhoseAnswerWasLostIsThereOnce) {
  Describe();
  const wandb::AlertRequest alert{.run_id = "run", .title = "t", .level = "WARN", .wait_ms = 5};
  ASSERT_OK(Query(wandb::AlertBody(alert)));
  Restart();
  Describe();
  ASSERT_OK(Query(wandb::AlertBody(alert)));
  ASSERT_OK(PostRows(0, 1));
  ASSERT_OK(Query(wandb::AlertBody(alert)));
  EXPECT_THAT(Content(), ElementsAre("alert", "row 0 loss=0.5 _step=0", "alert"));
  EXPECT_EQ(Records()[4].alert().wait_duration(), 5);
}

TEST_F(TrackerTest, RunFilesLieInTheFolderFiles) {
  Describe();
  auto answer = Query(
      wandb::RunFilesBody("-", "p", "run", {"media/a.png", "config.yaml", "../escape", "/root"}));
  ASSERT_OK(answer);
  const auto urls = wandb::ParseRunFiles(answer->body)->urls;
  EXPECT_EQ(urls.count("../escape") + urls.count("/root"), 0u);
  ASSERT_OK(Put(urls.at("media/a.png"), "one"));
  ASSERT_OK(Put(urls.at("media/a.png"), "two"));
  ASSERT_OK(Put(urls.at("config.yaml"), "made by sync"));
  EXPECT_EQ(FileContent(dir_.File(absl::StrCat("wandb/", kFirst, "/files/media/a.png"))), "two");
  EXPECT_FALSE(
      std::filesystem::exists(dir_.File(absl::StrCat("wandb/", kFirst, "/files/config.yaml"))));
  EXPECT_THAT(Content(), ElementsAre("files"));
  EXPECT_EQ(Records()[4].files().files(0).type(), wandb_internal::FilesItem::MEDIA);
}

TEST_F(TrackerTest, DirectoryThatCannotBeWrittenIsAnError) {
  std::ofstream(dir_.File("wandb")) << "a file";
  const auto answer =
      Query(wandb::UpsertBody({.run_id = "run", .project = "p", .config = kConfig}));
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable, HasSubstr(dir_.File("wandb"))));
  std::filesystem::remove(dir_.File("wandb"));
  Describe();
  EXPECT_THAT(Content(), IsEmpty());
}

}  // namespace
}  // namespace ranklog::deliver::offline
