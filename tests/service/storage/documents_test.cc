#include "service/storage/rows/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "service/storage/rows/batch_codec.h"
#include "tests/service/storage/builders.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"

namespace ranklog::storage {
namespace {

using model::Json;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::StatusIs;
using ::testing::ContainsRegex;

TEST(DocumentsTest, NonJsonValuesSurvive) {
  const Json document = {{"z", 1},
                         {"a", 1.0},
                         {"nan", std::numeric_limits<double>::quiet_NaN()},
                         {"inf", -std::numeric_limits<double>::infinity()},
                         {"list", {1, "two", nullptr, true}},
                         {"object", {{"big", std::numeric_limits<int64_t>::min()}}}};
  ASSERT_OK_AND_ASSIGN(const Json decoded, DecodeDocument(EncodeDocument(document)));
  EXPECT_TRUE(decoded["z"].is_number_integer());
  EXPECT_TRUE(decoded["a"].is_number_float());
  EXPECT_TRUE(std::isnan(decoded["nan"].get<double>()));
  EXPECT_TRUE(std::isinf(decoded["inf"].get<double>()));
  EXPECT_EQ(decoded["list"], document["list"]);
  EXPECT_EQ(decoded["object"], document["object"]);
  EXPECT_EQ(decoded.begin().key(), "z") << "the order of keys";
}

TEST(DocumentsTest, DetectDamagedBytes) {
  std::string blob = EncodeDocument({{"key", "value"}});
  blob[3] ^= 1;
  EXPECT_THAT(DecodeDocument(blob), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeDocument(Sealed("\xa1")), StatusIs(absl::StatusCode::kDataLoss))
      << "a map without its entry";
  EXPECT_THAT(DecodeDocument(""), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(DocumentsTest, WrongSizesAreRefused) {
  for (const absl::string_view lie : {
           absl::string_view("\x9b\x91\x61\x61\x61\x61\x61\x61\x61", 9),  // an array of 10^19 items
           // an object of 2^63 - 1 members
           absl::string_view("\xbb\x7f\xff\xff\xff\xff\xff\xff\xff", 9),
           absl::string_view("\x7a\xff\xff\xff\xff\x61", 6),  // a text of 4 GiB
           absl::string_view("\x9f\x01\xff", 3),              // no count
           absl::string_view("\xa1\x01\x01", 3),              // a key that is not a text
           absl::string_view("\x01\x01", 2),                  // two values
           absl::string_view("\xfb\x01", 2),                  // a truncated float
       }) {
    EXPECT_THAT(DecodeDocument(Sealed(lie)), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(DecodeDocument(Sealed(std::string(100'000, '\x81') + '\x01')),
              StatusIs(absl::StatusCode::kDataLoss))
      << "lists in each other, deeper than the stack";
}

TEST(DocumentsTest, InvalidUpdatesAndSettingsAreRefused) {
  EXPECT_THAT(DecodeItem(1, EncodeDocument({1, 2})), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeItem(99, EncodeDocument({{"a", 1}})), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeSettings(EncodeDocument({{"strategy", 99}})),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(DocumentsTest, ContainEverySetting) {
  model::RunSettings settings = SessionOf(1).settings;
  settings.entity = "team";
  settings.job_type = "train";
  settings.notes = "notes";
  settings.tags = {"a", "b"};
  settings.strategy = model::LogStrategy::kAll;
  settings.rank_statistics = {"mean"};
  settings.rank_statistic_rules = {"perf/*=max"};
  settings.destination_settings["wandb"]["base_url"] = "https://example.test";
  settings.host = "h";
  settings.program = "p";
  settings.resume = "must";
  settings.no_metadata = true;
  settings.no_system_metrics = true;
  settings.name_pattern = "global_rank_{rank}";
  settings.home = "node01:20007";
  settings.imported = true;
  ASSERT_OK_AND_ASSIGN(const model::RunSettings decoded, DecodeSettings(EncodeSettings(settings)));
  EXPECT_EQ(decoded, settings);

  ASSERT_OK_AND_ASSIGN(Json document, DecodeDocument(EncodeSettings(settings)));
  ASSERT_OK_AND_ASSIGN(Json defaults, DecodeDocument(EncodeSettings({})));
  for (const auto& [key, value] : document.items()) {
    EXPECT_NE(value, defaults[key]) << "the test does not set " << key;
  }
  // One name per member: a new member does not compile until the next line counts it.
  [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] =
      settings;

  document.erase("destination_settings");
  document["base_url"] = "https://earlier.test";  // as stores of the first version have it
  ASSERT_OK_AND_ASSIGN(const model::RunSettings earlier, DecodeSettings(EncodeDocument(document)));
  EXPECT_EQ(earlier.Of("wandb", "base_url"), "https://earlier.test");
  EXPECT_EQ(document.size(), 20);
}

TEST(DocumentsTest, PageListsEverySetting) {
  const std::string schema = testing::FileContent(TABLES_PAGE);
  const size_t begin = schema.find("`settings` is a document: ");
  ASSERT_NE(begin, std::string::npos);
  const std::string listed = schema.substr(begin, schema.find("\n\n", begin) - begin);
  ASSERT_OK_AND_ASSIGN(const Json document, DecodeDocument(EncodeSettings({})));
  for (const auto& [key, value] : document.items()) {
    EXPECT_THAT(listed, ContainsRegex("[` \n]" + key + "[` \n]"));
  }
}

TEST(DocumentsTest, MissingSettingsGetDefaults) {
  ASSERT_OK_AND_ASSIGN(const model::RunSettings settings,
                       DecodeSettings(EncodeDocument({{"name", "n"}})));
  EXPECT_EQ(settings.name, "n");
  EXPECT_EQ(settings.strategy, model::LogStrategy::kMain);
  EXPECT_EQ(settings.start_time_us, 0);
}

TEST(DocumentsTest, MetricDefinitionSurvivesRoundTrip) {
  model::Item update;
  update.kind = model::Item::Kind::kMetric;
  update.metric = {.name = "train/*",
                   .step_metric = "epoch",
                   .step_sync = false,
                   .hidden = true,
                   .summary = {"min", "last"},
                   .goal = "minimize"};
  ASSERT_OK_AND_ASSIGN(const model::Item decoded,
                       DecodeItem(static_cast<int64_t>(update.kind), EncodeItem(update)));
  EXPECT_EQ(decoded.kind, update.kind);
  EXPECT_EQ(decoded.metric, update.metric);
}

TEST(DocumentsTest, MetadataSurvivesRoundTrip) {
  model::Item metadata;
  metadata.kind = model::Item::Kind::kMetadata;
  metadata.object = {{"os", "Linux"}, {"args", {"--lr", "1"}}};
  ASSERT_OK_AND_ASSIGN(const model::Item decoded, DecodeItem(4, EncodeItem(metadata)));
  EXPECT_EQ(decoded.kind, metadata.kind);
  EXPECT_EQ(decoded.object, metadata.object);
  metadata.kind = model::Item::Kind::kPreempting;
  metadata.object = model::Json::object();
  EXPECT_OK(DecodeItem(5, EncodeItem(metadata)).status());
  EXPECT_THAT(DecodeItem(4, EncodeDocument({1, 2})), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(DocumentsTest, HoldTheStepOfASummary) {
  model::Item update;
  update.kind = model::Item::Kind::kSummary;
  update.object = {{"summary", 1}, {"before_step", 2}};
  for (const int64_t step : {int64_t{0}, int64_t{7}, model::Item().before_step}) {
    update.before_step = step;
    ASSERT_OK_AND_ASSIGN(const model::Item decoded,
                         DecodeItem(static_cast<int64_t>(update.kind), EncodeItem(update)));
    EXPECT_EQ(decoded.kind, update.kind);
    EXPECT_EQ(decoded.object, update.object);
    EXPECT_EQ(decoded.before_step, step);
  }
  EXPECT_THAT(DecodeItem(2, EncodeDocument({{"before_step", 2}})),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace ranklog::storage
