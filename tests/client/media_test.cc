// Images, tables and HTML in rows: their entries and files, and what happens if a file cannot be kept.

#include "client/content/media.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client/base/hash/sha256.h"
#include "client/base/text/json.h"
#include "ranklog/ranklog.h"
#include "tests/client/fake_ingest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;

using internal::MakeMedia;
using internal::Media;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

// The begin of a PNG file, which is all that is read.
std::string Png(const std::string& width_and_height, const std::string& rest = "") {
  return std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16) + width_and_height + rest;
}
const std::string kTwoByTwo("\0\0\0\2\0\0\0\2", 8);
const std::string kFourByOne("\0\0\0\4\0\0\0\1", 8);

std::string TextOf(const Value& value) {
  std::string json;
  EXPECT_EQ(internal::AppendJson(value.field(), &json), "");
  return json;
}
std::string ErrorOf(const MediaMetric& metric) {
  return std::string(MakeMedia(metric, 0).status().message());
}

TEST(MediaTest, ImageHasTheEntryOfTheSdk) {
  const Image image(Png(std::string("\0\0\0\3\1\2\3\4", 8), "a"), "größe");
  ASSERT_OK_AND_ASSIGN(const Media media, MakeMedia(MediaMetric("samples", image), 7));
  const std::string path = "media/images/samples_7_2cda31f1a22cc930cfdc.png";
  EXPECT_EQ(
      TextOf(media.entry),
      "{\"_type\":\"image-file\",\"path\":\"" + path +
          "\",\"sha256\":\"2cda31f1a22cc930cfdc2215568052ddca8f7ab1092efefa09751cfd7dde30bf\","
          "\"size\":25,\"format\":\"png\",\"width\":3,"
          "\"height\":16909060,\"caption\":\"größe\"}");
  ASSERT_THAT(media.files, SizeIs(1));
  EXPECT_EQ(media.files[0].path, path);
  EXPECT_EQ(media.files[0].bytes, Png(std::string("\0\0\0\3\1\2\3\4", 8), "a"));
}

TEST(MediaTest, BytesMayBeUnsigned) {
  const std::string png = Png(kTwoByTwo);
  const Image image(std::vector<unsigned char>(png.begin(), png.end()));
  ASSERT_OK_AND_ASSIGN(const Media media, MakeMedia(MediaMetric("a", image), 0));
  EXPECT_EQ(media.files.at(0).bytes, png);
  EXPECT_THAT(TextOf(media.entry), ::testing::Not(HasSubstr("caption")));
}

TEST(MediaTest, ListOfImagesHasOneEntryAndEveryFileOnce) {
  const Images images({Image(Png(kTwoByTwo, "a"), "first"), Image(Png(kFourByOne)),
                       Image(Png(kTwoByTwo, "a"), "again")});
  ASSERT_OK_AND_ASSIGN(const Media media, MakeMedia(MediaMetric("x", images), 0));
  const std::string first = "media/images/x_0_81fdc1ba10f79e6acdd2.png";
  const std::string other = "media/images/x_0_b41f6b19e9999288d631.png";
  EXPECT_EQ(TextOf(media.entry),
            "{\"_type\":\"images/separated\",\"width\":2,\"height\":2,\"format\":\"png\","
            "\"count\":3,\"filenames\":[\"" +
                first + "\",\"" + other + "\",\"" + first +
                "\"],\"captions\":[\"first\",null,\"again\"]}");
  ASSERT_THAT(media.files, SizeIs(2));
  EXPECT_EQ(media.files[0].path, first);
  EXPECT_EQ(media.files[1].path, other);
}

TEST(MediaTest, ListOfImagesEndsAtTheLimit) {
  const Images images(std::vector<Image>(110, Image(Png(kTwoByTwo))));
  ASSERT_OK_AND_ASSIGN(const Media media, MakeMedia(MediaMetric("x", images), 0));
  EXPECT_THAT(TextOf(media.entry), HasSubstr("\"count\":108,"));
  EXPECT_EQ(media.left_out, 2u);
  EXPECT_EQ(media.why, "a list of images has 110, and only the first 108 are kept");
}

TEST(MediaTest, TableIsAFileOfJson) {
  const Table table({"id", "label"},
                    {{1, "cat \"x\""}, {2.5, Value()}, {true, Value::List({1, 2})}});
  ASSERT_OK_AND_ASSIGN(const Media media, MakeMedia(MediaMetric("t", table), 3));
  const std::string text =
      R"({"columns":["id","label"],"data":[[1,"cat \"x\""],[2.5,null],[true,[1,2]]]})";
  ASSERT_THAT(media.files, SizeIs(1));
  EXPECT_EQ(media.files[0].bytes, text);
  const std::string hash = internal::Sha256(text);
  EXPECT_EQ(media.files[0].path, "media/table/t_3_" + hash.substr(0, 20) + ".table.json");
  EXPECT_EQ(TextOf(media.entry), "{\"_type\":\"table-file\",\"path\":\"" + media.files[0].path +
                                     "\",\"sha256\":\"" + hash +
                                     "\",\"size\":" + std::to_string(text.size()) +
                                     ",\"ncols\":2,\"nrows\":3,\"log_mode\":\"IMMUTABLE\"}");
}

TEST(MediaTest, TableEndsAtTheLimitAndTellsAllItsRows) {
  const Table table({"id"}, std::vector<std::vector<Value>>(10'003, {1}));
  ASSERT_OK_AND_ASSIGN(const Media media, MakeMedia(MediaMetric("t", table), 3));
  EXPECT_THAT(TextOf(media.entry), HasSubstr("\"nrows\":10003,"));
  EXPECT_EQ(media.files.at(0).bytes.size(), std::string(R"({"columns":["id"],"data":[]})").size() +
                                                10'000 * std::string("[1],").size() - 1);
  EXPECT_EQ(media.left_out, 3u);
  EXPECT_EQ(media.why, "a table has 10003 rows, and only the first 10000 are kept");
}

TEST(MediaTest, HtmlIsAFileAsItIs) {
  const Html html("<b>x</b>");
  ASSERT_OK_AND_ASSIGN(const Media media, MakeMedia(MediaMetric("eval/report", html), 0));
  EXPECT_EQ(TextOf(media.entry),
            "{\"_type\":\"html-file\",\"path\":\"media/html/eval/"
            "report_0_e31e3a8eedaa655937bf.html\",\"sha256\":"
            "\"e31e3a8eedaa655937bfed7e66be6af1ec5b31b3850ac669dedda6c3de453c79\",\"size\":8}");
  EXPECT_EQ(media.files.at(0).bytes, "<b>x</b>");
}

TEST(MediaTest, PathsStayInTheFolder) {
  const auto begin = [](const char* key) {
    return MakeMedia(MediaMetric(key, Html("x")), 0)->files.at(0).path;
  };
  EXPECT_THAT(begin("/etc/passwd"), StartsWith("media/html/etc/passwd_0_"));
  EXPECT_THAT(begin("../../x"), StartsWith("media/html/__/__/x_0_"));
  EXPECT_THAT(begin("./a//.."), StartsWith("media/html/_/a/___0_"));
  EXPECT_THAT(begin("a/"), StartsWith("media/html/a/_0_"));
  EXPECT_THAT(begin("with space/größe.x"), StartsWith("media/html/with space/größe.x_0_"));
}

TEST(MediaTest, WrongContentIsExplained) {
  EXPECT_EQ(ErrorOf({"a", Image("GIF89a")}), "an image is not a PNG file");
  EXPECT_EQ(ErrorOf({"a", Image(Png("\1\2\3"))}), "an image is not a PNG file");
  EXPECT_EQ(ErrorOf({"a", Image(Png(kTwoByTwo), "\xff")}), "the caption of an image is not UTF-8");
  EXPECT_EQ(ErrorOf({"a", Images({})}), "a list of images is empty");
  EXPECT_EQ(ErrorOf({"a", Images({Image(Png(kTwoByTwo)), Image("x")})}),
            "an image is not a PNG file");
  EXPECT_EQ(ErrorOf({"a", Html("\xff")}), "the HTML is not UTF-8");
  EXPECT_EQ(ErrorOf({"a", Table({}, {})}),
            "a table must have columns, and their names must be texts");
  EXPECT_EQ(ErrorOf({"a", Table({"x", "y"}, {{1, 2}, {3}})}),
            "row 1 of a table must have 2 values, one for each column");
  EXPECT_EQ(ErrorOf({"a", Table({"x"}, {{"\xff"}})}), "a table has a text that is not UTF-8");
  const std::string large(kMaxMediaBytes + 1, 'x');
  const std::string too_large =
      "its file has 67108865 bytes, and at most 64 MiB can be logged in a row; upload a larger one "
      "with Save()";
  EXPECT_EQ(ErrorOf({"a", Html(large)}), too_large);
  EXPECT_THAT(ErrorOf({"a", Image(Png(kTwoByTwo, large))}), HasSubstr("at most 64 MiB"));
  EXPECT_THAT(ErrorOf({"a", Table({"x"}, {{large}, {1}})}), HasSubstr("at most 64 MiB"));
}

// What a C program may pass.
TEST(MediaTest, WrongPartsAreExplained) {
  ranklog_field field = {};
  field.kind = RANKLOG_IMAGE;
  EXPECT_THAT(MakeMedia(field, 0).status().message(), HasSubstr("must have the bytes of a PNG"));
  field.kind = RANKLOG_TABLE;
  EXPECT_THAT(MakeMedia(field, 0).status().message(), HasSubstr("must have a list of columns"));
  field.kind = 99;
  EXPECT_EQ(MakeMedia(field, 0).status().message(), "the unknown kind 99");
}

class MediaRowTest : public ::testing::Test {
 protected:
  MediaRowTest() {
    fs::create_directory(dir_.File("content"));
    struct stat info {};
    EXPECT_EQ(stat(dir_.File("content").c_str(), &info), 0);
    place_.set_dir(dir_.File("content"));
    place_.set_device(info.st_dev);
    place_.set_inode(info.st_ino);
  }
  void StartDaemon() {
    daemon_.SetContent(place_);
    daemon_.Start();
  }
  Settings MakeSettings() {
    Settings settings;
    settings.address = "unix:" + dir_.File("sock");
    settings.spool_dir = dir_.path();
    settings.spool_bytes = 1 << 20;
    settings.start_daemon = false;
    settings.quiet = true;
    settings.metadata = false;
    return settings;
  }
  std::vector<v1::Item> Items() {
    std::vector<v1::Item> items;
    for (const ReceivedStream& stream : daemon_.Streams()) {
      items.insert(items.end(), stream.items.begin(), stream.items.end());
    }
    return items;
  }
  // The contents of the staged files by their paths in the run, as the items name them.
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const v1::Item& item : Items()) {
      std::map<std::string, v1::Value> members;
      for (const v1::Field& field : item.run_file().fields()) members[field.key()] = field.value();
      std::ifstream in(place_.dir() + "/" + members["file"].text(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      EXPECT_EQ(static_cast<size_t>(members["bytes"].integer()), bytes.size());
      files[members["path"].text()] = bytes;
    }
    return files;
  }
  size_t StagedFiles() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(place_.dir()), {}));
  }

  TempDir dir_;
  v1::ContentPlace place_;
  FakeIngest daemon_{dir_.File("sock")};
};

TEST_F(MediaRowTest, FilesComeBeforeTheirRow) {
  StartDaemon();
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"loss", 0.5}}, 6));
  EXPECT_TRUE(run.Log({{"samples", Images({Image(Png(kTwoByTwo)), Image(Png(kFourByOne))})},
                       {"report", Html("<b>x</b>")},
                       {"loss", 0.25},
                       {"note", "a text"}},
                      7));
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  const std::vector<ReceivedRow> rows = daemon_.Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[1].step, 7);
  EXPECT_THAT(rows[1].values, ElementsAre(Pair("loss", 0.25)));
  EXPECT_THAT(rows[1].texts, ElementsAre(Pair("note", "a text")));
  ASSERT_THAT(rows[1].json, SizeIs(2));
  const auto files = Files();
  ASSERT_THAT(files, SizeIs(3));
  for (const auto& [path, bytes] : files) {
    EXPECT_THAT(rows[1].json.at(bytes == "<b>x</b>" ? "report" : "samples"), HasSubstr(path));
  }
  for (const v1::Item& item : Items()) EXPECT_EQ(item.after_row(), 1u);  // not after the second one
  EXPECT_EQ(run.stats().lost_values, 0u);
}

TEST_F(MediaRowTest, RowWithoutStepHasTheOpenStepInItsPaths) {
  StartDaemon();
  auto run = Init(MakeSettings());
  run.Log({{"loss", 0.5}}, 41);
  EXPECT_TRUE(run.Log({{"a", Html("x")}}));
  EXPECT_TRUE(run.Log({{"b", Html("x")}}));
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  EXPECT_THAT(Files(), ElementsAre(Pair(StartsWith("media/html/a_41_"), "x"),
                                   Pair(StartsWith("media/html/b_42_"), "x")));
  EXPECT_EQ(daemon_.Rows().back().step, 42);
}

TEST_F(MediaRowTest, WrongMediumCostsOnlyItself) {
  StartDaemon();
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"bad", Image("GIF89a")}, {"good", Html("x")}, {"loss", 1}}));
  EXPECT_EQ(run.stats().last_error, "bad: an image is not a PNG file");
  EXPECT_TRUE(run.Log({{"", Html("x")}, {"loss", 2}}));  // a key that no row can have
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  EXPECT_EQ(run.stats().lost_values, 2u);
  const std::vector<ReceivedRow> rows = daemon_.Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_THAT(rows[0].json, ElementsAre(Pair("good", HasSubstr("html-file"))));
  EXPECT_THAT(rows[0].values, ElementsAre(Pair("loss", 1)));
  EXPECT_EQ(StagedFiles(), 1u);
}

TEST_F(MediaRowTest, WhatIsAboveALimitIsCounted) {
  StartDaemon();
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"t", Table({"id"}, std::vector<std::vector<Value>>(10'003, {1}))}}));
  EXPECT_EQ(run.stats().lost_values, 3u);
  EXPECT_EQ(run.stats().last_error, "t: a table has 10003 rows, and only the first 10000 are kept");
}

TEST_F(MediaRowTest, RefusedRowWritesNoFiles) {
  StartDaemon();
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"loss", 1}}, 5));
  EXPECT_FALSE(run.Log({{"late", Html("x")}}, 4));
  EXPECT_EQ(run.stats().lost_step_behind, 1u);
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  EXPECT_FALSE(run.Log({{"late", Html("x")}}, 6));
  EXPECT_EQ(run.stats().lost_after_finish, 1u);
  EXPECT_THAT(Items(), IsEmpty());
  EXPECT_EQ(StagedFiles(), 0u);
}

TEST_F(MediaRowTest, OtherRanksOfAMainRunWriteNoFiles) {
  StartDaemon();
  Settings settings = MakeSettings();
  settings.rank = 1;
  settings.world_size = 2;
  settings.run_id = "job";
  auto run = Init(settings);
  EXPECT_TRUE(run.Log({{"a", Html("x")}, {"loss", 1}}));
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  EXPECT_THAT(daemon_.Rows().at(0).json, IsEmpty());
  EXPECT_THAT(daemon_.Rows().at(0).values, ElementsAre(Pair("loss", 1)));
  EXPECT_THAT(Items(), IsEmpty());
  EXPECT_EQ(StagedFiles(), 0u);
  EXPECT_EQ(run.stats().lost_values, 0u);
}

TEST_F(MediaRowTest, WaitsForADaemonThatStarts) {
  auto run = Init(MakeSettings());
  daemon_.HoldHellos(true);
  StartDaemon();
  std::thread starts([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    daemon_.HoldHellos(false);
  });
  EXPECT_TRUE(run.Log({{"a", Html("x")}}));
  starts.join();
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  EXPECT_THAT(Files(), SizeIs(1));
}

TEST_F(MediaRowTest, WithoutADaemonTheRowStaysAndTheUserIsTold) {
  Settings settings = MakeSettings();
  settings.finish_timeout = std::chrono::milliseconds(50);
  auto run = Init(settings);
  EXPECT_TRUE(run.Log({{"a", Html("x")}, {"loss", 1}}));
  EXPECT_TRUE(run.Log({{"a", Html("x")}, {"loss", 1}}));
  EXPECT_EQ(run.stats().last_error,
            "a: no daemon has answered, so there is no place for its files; start ranklogd");
  EXPECT_EQ(run.stats().lost_values, 2u);
  EXPECT_EQ(run.stats().rows_logged, 2u);
}

// The ring is full, so it takes neither the item that names the file nor the row.
TEST_F(MediaRowTest, FileWithoutItsItemIsRemoved) {
  StartDaemon();
  Settings settings = MakeSettings();
  settings.finish_timeout = std::chrono::milliseconds(50);
  auto run = Init(settings);
  run.Log({{"loss", 1}});
  ASSERT_EQ(run.Flush(std::chrono::seconds(20)), FlushResult::kDurable);
  daemon_.HoldAcks(true);
  while (run.Log({{"loss", 1}})) {
  }
  EXPECT_FALSE(run.Log({{"a", Html("x")}}));
  EXPECT_EQ(run.stats().lost_values, 1u);
  EXPECT_EQ(StagedFiles(), 0u);
  daemon_.HoldAcks(false);
}

TEST_F(MediaRowTest, ProgramInCLogsAnImage) {
  StartDaemon();
  const std::string png = Png(kTwoByTwo);
  ranklog_settings* const settings = ranklog_settings_new();
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"address", "unix:" + dir_.File("sock")},
                                          {"spool_dir", dir_.path()},
                                          {"start_daemon", "false"},
                                          {"quiet", "true"},
                                          {"metadata", "false"}}) {
    EXPECT_TRUE(ranklog_settings_set(settings, name.c_str(), value.data(), value.size()));
  }
  ranklog_run* const run = ranklog_init(settings);
  ranklog_field image[2] = {};
  image[0].kind = image[1].kind = RANKLOG_TEXT;
  image[0].text = png.data();
  image[0].size = png.size();
  image[1].text = "x";
  image[1].size = 1;
  ranklog_field row = {};
  row.key = "a";
  row.key_bytes = 1;
  row.kind = RANKLOG_IMAGE;
  row.items = image;
  row.size = 2;
  EXPECT_TRUE(ranklog_log_media(run, &row, 1, 3));
  EXPECT_FALSE(ranklog_log_media(run, nullptr, 1, 3));
  EXPECT_FALSE(ranklog_log_media(nullptr, &row, 1, 3));
  EXPECT_EQ(ranklog_finish(run, 0), RANKLOG_DURABLE);
  ranklog_release(run, /*failed=*/false);
  ranklog_settings_free(settings);
  EXPECT_THAT(Files(), ElementsAre(Pair(StartsWith("media/images/a_3_"), png)));
  EXPECT_THAT(daemon_.Rows().at(0).json.at("a"), HasSubstr("\"caption\":\"x\""));
}

// The daemon's directory may be another container's.
TEST_F(MediaRowTest, UnseenDirectoryIsNamed) {
  place_.set_inode(place_.inode() + 1);
  StartDaemon();
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", Html("x")}, {"loss", 1}}));
  EXPECT_EQ(run.stats().lost_values, 1u);
  EXPECT_THAT(run.stats().last_error,
              AllOf(StartsWith("a: "), HasSubstr(place_.dir()), HasSubstr("mount it here")));
}

TEST_F(MediaRowTest, DisabledRunTakesAll) {
  Settings settings = MakeSettings();
  settings.disabled = true;
  auto run = Init(settings);
  EXPECT_TRUE(run.Log({{"a", Html("x")}}));
  EXPECT_FALSE(ranklog::Run().Log({{"a", Html("x")}}));
}

TEST_F(MediaRowTest, ListsMayBeMadeAtRunTime) {
  StartDaemon();
  auto run = Init(MakeSettings());
  const Html html("x");
  std::vector<MediaMetric> row;
  row.emplace_back("loss", 1);
  row.emplace_back("a", html);
  EXPECT_TRUE(run.Log(row));
  EXPECT_TRUE(run.Log(row, 4));
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  EXPECT_THAT(Files(), SizeIs(2));
}

}  // namespace
}  // namespace ranklog::testing
