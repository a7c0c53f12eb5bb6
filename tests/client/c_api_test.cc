// What a C program sees of the library beyond what the C++ header uses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ranklog/c.h"
#include "ranklog/ranklog.h"
#include "tests/support/temp_dir.h"

namespace ranklog {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using Named = std::vector<std::pair<std::string, std::string>>;

bool Set(ranklog_settings* settings, const char* name, std::string_view value) {
  return ranklog_settings_set(settings, name, value.data(), value.size());
}

// The settings that are not as in ranklog_settings_new().
Named Changed(const ranklog_settings* settings) {
  const auto add = [](void* user, const char* name, const char* value, size_t bytes) {
    static_cast<Named*>(user)->emplace_back(name, std::string(value, bytes));
  };
  ranklog_settings* const none = ranklog_settings_new();
  Named all, defaults;
  ranklog_settings_each(settings, add, &all);
  ranklog_settings_each(none, add, &defaults);
  ranklog_settings_free(none);
  std::erase_if(all, [&](const auto& setting) {
    return std::find(defaults.begin(), defaults.end(), setting) != defaults.end();
  });
  return all;
}

class CSettingsTest : public ::testing::Test {
 protected:
  ~CSettingsTest() override { ranklog_settings_free(settings_); }
  ranklog_settings* const settings_ = ranklog_settings_new();
};

TEST_F(CSettingsTest, EachReadsWhatWasSet) {
  EXPECT_TRUE(Set(settings_, "project", "p"));
  EXPECT_TRUE(Set(settings_, "tags", "a"));
  EXPECT_TRUE(Set(settings_, "tags", ""));
  EXPECT_TRUE(Set(settings_, "rank", "-2147483648"));
  EXPECT_TRUE(Set(settings_, "spool_bytes", "18446744073709551615"));
  EXPECT_TRUE(Set(settings_, "finish_timeout", "-9223372036854775808"));
  EXPECT_TRUE(Set(settings_, "log_strategy", "all"));
  EXPECT_TRUE(Set(settings_, "quiet", "true"));
  EXPECT_TRUE(Set(settings_, "credentials.A.B", "secret"));
  EXPECT_TRUE(Set(settings_, "destination_settings.wandb.base.url", "u"));
  EXPECT_THAT(Changed(settings_),
              UnorderedElementsAre(
                  Pair("project", "p"), Pair("tags", "a"), Pair("tags", ""),
                  Pair("rank", "-2147483648"), Pair("spool_bytes", "18446744073709551615"),
                  Pair("finish_timeout", "-9223372036854775808"), Pair("log_strategy", "all"),
                  Pair("quiet", "true"), Pair("credentials.A.B", "secret"),
                  Pair("destination_settings.wandb.base.url", "u")));
}

TEST_F(CSettingsTest, UnreadableValuesAreRefused) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"projects", "p"},
                                                        {"", "p"},
                                                        {"on_message", "p"},
                                                        {"rank", ""},
                                                        {"rank", "-"},
                                                        {"rank", "1x"},
                                                        {"rank", "2147483648"},
                                                        {"rank", "-2147483649"},
                                                        {"spool_bytes", "-1"},
                                                        {"spool_bytes", "18446744073709551616"},
                                                        {"finish_timeout", "9223372036854775808"},
                                                        {"quiet", "yes"},
                                                        {"log_strategy", "some"},
                                                        {"credentials", "secret"},
                                                        {"credentialsA", "secret"},
                                                        {"destination_settings.wandb", "u"}}) {
    EXPECT_FALSE(Set(settings_, name, value)) << name << "=" << value;
  }
  EXPECT_FALSE(ranklog_settings_set(settings_, nullptr, "p", 1));
  EXPECT_THAT(Changed(settings_), ElementsAre());
}

TEST_F(CSettingsTest, NullResets) {
  for (const char* name : {"project", "tags", "credentials.A", "destination_settings.x.y"}) {
    Set(settings_, name, "x");
    EXPECT_TRUE(ranklog_settings_set(settings_, name, nullptr, 0)) << name;
  }
  Set(settings_, "rank", "1");
  EXPECT_TRUE(ranklog_settings_set(settings_, "rank", nullptr, 0));
  Set(settings_, "credentials.A", "x");
  EXPECT_TRUE(ranklog_settings_set(settings_, "credentials", nullptr, 0));
  EXPECT_THAT(Changed(settings_), ElementsAre());
}

// A destination's name has no dot, so it must not become another name with another setting.
TEST_F(CSettingsTest, DotInADestinationIsStillAMistake) {
  ranklog::Settings settings;
  settings.destination_settings["wandb.x"]["base_url"] = "u";
  EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr("no destination's")));
  settings = {};
  settings.credentials[std::string("A\0B", 3)] = "u";
  EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr("a credential's name")));
}

class CRunTest : public ::testing::Test {
 protected:
  CRunTest() {
    ranklog_settings* const settings = ranklog_settings_new();
    Set(settings, "address", "unix:" + dir_.path() + "/none");
    Set(settings, "spool_dir", dir_.path());
    Set(settings, "start_daemon", "false");
    Set(settings, "finish_timeout", "0");
    static std::atomic<int> freed = 0;  // by the run's last thread, which may outlive the test
    ranklog_settings_on_message(
        settings, [](void*, int, const char*, size_t) {}, &freed,
        [](void* user) { ++*static_cast<std::atomic<int>*>(user); });
    run_ = ranklog_init(settings);
    ranklog_settings_free(settings);
  }
  ~CRunTest() override { ranklog_release(run_, false); }

  ranklog_stats Counters() {
    ranklog_stats stats = {};
    stats.size = sizeof stats;
    ranklog_get_stats(run_, &stats);
    return stats;
  }
  std::string LastError() {
    char text[1000];
    ranklog_last_error(run_, text, sizeof text);
    return text;
  }

  testing::TempDir dir_;
  ranklog_run* run_;
};

ranklog_field Field(const char* key, uint64_t kind) {
  ranklog_field field = {};
  field.key = key;
  field.key_bytes = strlen(key);
  field.kind = kind;
  return field;
}

TEST_F(CRunTest, SmallIntegersAreNumbersOfARow) {
  ranklog_field row[] = {Field("a", RANKLOG_SIGNED), Field("b", RANKLOG_UNSIGNED)};
  row[0].signed_integer = -5;
  row[1].unsigned_integer = 5;
  EXPECT_TRUE(ranklog_log(run_, row, 2, 0));
  // A number and an integer of one key are one metric: its last value counts.
  ranklog_field twice[] = {Field("a", RANKLOG_NUMBER), Field("a", RANKLOG_SIGNED)};
  EXPECT_TRUE(ranklog_log(run_, twice, 2, RANKLOG_NO_STEP));
  EXPECT_EQ(Counters().rows_logged, 2u);
  EXPECT_EQ(Counters().lost_values, 0u);
}

TEST_F(CRunTest, UnknownKindIsLeftOut) {
  const ranklog_field row[] = {Field("a", RANKLOG_NUMBER), Field("b", 77)};
  EXPECT_TRUE(ranklog_log(run_, row, 2, 0));
  EXPECT_EQ(Counters().lost_values, 1u);
  EXPECT_EQ(LastError(), "the value of b has the unknown kind 77");
  EXPECT_FALSE(ranklog_config(run_, row, 2));
  EXPECT_EQ(Counters().updates_refused, 1u);
}

TEST_F(CRunTest, NullPointersAreEmpty) {
  ranklog_field row[] = {Field("text", RANKLOG_TEXT), Field("list", RANKLOG_LIST)};
  row[0].size = row[1].size = 10;
  EXPECT_TRUE(ranklog_log(run_, row, 2, 0));
  EXPECT_TRUE(ranklog_config(run_, row, 2));
  EXPECT_TRUE(ranklog_log(run_, nullptr, 0, 1));
  EXPECT_EQ(Counters().lost_values, 0u);
  EXPECT_FALSE(ranklog_config(run_, nullptr, 1));
  EXPECT_EQ(LastError(), "no memory");
  EXPECT_EQ(ranklog_row_new(run_, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(ranklog_get_key(run_, nullptr, 0), nullptr);
}

TEST_F(CRunTest, KeysOfARowMayEndInAZeroByte) {
  const char* const keys[] = {"a", "b"};
  const ranklog_row* const row = ranklog_row_new(run_, keys, nullptr, 2);
  const double values[] = {1, 2};
  EXPECT_TRUE(ranklog_log_row(run_, row, values, 2, 0));
  ranklog_row_free(row);
  EXPECT_FALSE(ranklog_log_row(run_, nullptr, values, 2, 1));
  EXPECT_EQ(Counters().lost_invalid, 1u);
}

// A caller that was compiled with an older header has smaller structs.
TEST_F(CRunTest, SmallerStructsAreOfAnOlderHeader) {
  const ranklog_field row[] = {Field("a", RANKLOG_NUMBER)};
  EXPECT_TRUE(ranklog_log(run_, row, 1, 0));
  ranklog_stats stats = {};
  stats.size = offsetof(ranklog_stats, rows_durable);
  stats.lost_invalid = 77;
  ranklog_get_stats(run_, &stats);
  EXPECT_EQ(stats.rows_logged, 1u);
  EXPECT_EQ(stats.lost_invalid, 77u);
  ranklog_metric_options options = RANKLOG_METRIC_OPTIONS_INIT;
  options.size = offsetof(ranklog_metric_options, goal);
  options.goal = "no such goal";
  EXPECT_TRUE(ranklog_define_metric(run_, "a", 1, &options));
  options.size = sizeof options;
  EXPECT_FALSE(ranklog_define_metric(run_, "a", 1, &options));
  EXPECT_TRUE(ranklog_define_metric(run_, "a", 1, nullptr));
  EXPECT_TRUE(ranklog_mark_preempting(run_));
  ranklog_alert_options alert = RANKLOG_ALERT_OPTIONS_INIT;
  alert.title = "t";
  alert.title_bytes = 1;
  alert.level = 77;
  alert.size = offsetof(ranklog_alert_options, level);
  EXPECT_TRUE(ranklog_alert(run_, &alert));
  alert.size = sizeof alert;
  EXPECT_FALSE(ranklog_alert(run_, &alert));
}

TEST_F(CRunTest, UsedArtifactNeedsAName) {
  const auto state = [this](const char* name) {
    ranklog_upload* const upload = ranklog_use_artifact(run_, name);
    const int found = ranklog_upload_state(upload);
    ranklog_upload_free(upload);
    return found;
  };
  for (const char* name : {"gpt", "gpt:v3", "llm/gpt:best", "team/llm/gpt:best"}) {
    EXPECT_EQ(state(name), RANKLOG_STAGING) << name << ": no daemon runs";
  }
  for (const char* name : {"", ":v3", "gpt:", "/gpt", "a//b", "a/b/c/d", "gpt:a:b", "caf\xe9"}) {
    EXPECT_EQ(state(name), RANKLOG_REFUSED) << name;
  }
  EXPECT_EQ(state(nullptr), RANKLOG_REFUSED);
}

TEST_F(CRunTest, SavePolicyMustBeKnown) {
  ranklog_upload* const upload = ranklog_save_by_policy(run_, "/absent", nullptr, 7);
  EXPECT_EQ(ranklog_upload_state(upload), RANKLOG_REFUSED);
  ranklog_upload_free(upload);
}

TEST_F(CRunTest, AlertNeedsATitle) {
  EXPECT_FALSE(ranklog_alert(run_, nullptr));
  EXPECT_EQ(LastError(), "Alert: the title is empty");
  EXPECT_EQ(Counters().updates_refused, 1u);
}

TEST_F(CRunTest, TextsAreCutToTheBuffer) {
  const std::string id = [this] {
    char text[200];
    EXPECT_LT(ranklog_run_id(run_, text, sizeof text), sizeof text);
    return std::string(text);
  }();
  char text[3] = {'x', 'x', 'x'};
  EXPECT_EQ(ranklog_run_id(run_, nullptr, 0), id.size());
  EXPECT_EQ(ranklog_run_id(run_, text, sizeof text), id.size());
  EXPECT_EQ(std::string_view(text), id.substr(0, 2));
}

TEST_F(CRunTest, SmallestStepOfCppIsBehind) {
  ranklog::Run run = Init([this] {
    ranklog::Settings settings;
    settings.address = "unix:" + dir_.path() + "/none";
    settings.spool_dir = dir_.path();
    settings.start_daemon = false;
    settings.quiet = true;
    settings.finish_timeout = std::chrono::milliseconds(0);
    return settings;
  }());
  EXPECT_FALSE(run.Log({{"a", 1}}, INT64_MIN));
  EXPECT_EQ(run.stats().lost_step_behind, 1u);
}

TEST(CApiTest, NullIsHarmless) {
  ranklog_settings_free(nullptr);
  EXPECT_FALSE(ranklog_settings_set(nullptr, "project", "p", 1));
  ranklog_settings_each(nullptr, nullptr, nullptr);
  ranklog_settings_validate(nullptr, nullptr, nullptr);
  int freed = 0;
  EXPECT_FALSE(ranklog_settings_on_message(
      nullptr, [](void*, int, const char*, size_t) {}, &freed,
      [](void* user) { ++*static_cast<int*>(user); }));
  EXPECT_EQ(freed, 1);
  ranklog_release(nullptr, false);
  ranklog_field field = Field("a", RANKLOG_NUMBER);
  EXPECT_FALSE(ranklog_log(nullptr, &field, 1, 0));
  const ranklog_key* const key = ranklog_get_key(nullptr, "a", 1);
  EXPECT_NE(key, nullptr);
  const ranklog_key_value value = {key, 1};
  EXPECT_FALSE(ranklog_log_keys(nullptr, &value, 1, 0));
  EXPECT_FALSE(ranklog_log_row(nullptr, nullptr, nullptr, 0, 0));
  EXPECT_FALSE(ranklog_config(nullptr, &field, 1));
  EXPECT_FALSE(ranklog_summary(nullptr, nullptr, 1));
  EXPECT_FALSE(ranklog_define_metric(nullptr, "a", 1, nullptr));
  EXPECT_FALSE(ranklog_mark_preempting(nullptr));
  EXPECT_FALSE(ranklog_alert(nullptr, nullptr));
  EXPECT_EQ(ranklog_flush(nullptr, 1), RANKLOG_DURABLE);
  EXPECT_EQ(ranklog_finish(nullptr, 0), RANKLOG_DURABLE);
  ranklog_stats stats = {};
  stats.size = sizeof stats;
  stats.rows_logged = 1;
  ranklog_get_stats(nullptr, &stats);
  EXPECT_EQ(stats.rows_logged, 0u);
  EXPECT_EQ(ranklog_last_error(nullptr, nullptr, 0), 0u);
  EXPECT_EQ(ranklog_url(nullptr, nullptr, 0), 0u);
  EXPECT_FALSE(ranklog_stop_requested(nullptr));
  EXPECT_EQ(ranklog_handle(nullptr, nullptr, 0), 0u);
  EXPECT_THAT(Changed(ranklog_run_settings(nullptr)), ElementsAre());
}

TEST(CApiTest, CallbackIsFreedWithTheLastSettings) {
  int freed = 0;
  const auto count = [](void* user) { ++*static_cast<int*>(user); };
  const auto nothing = [](void*, int, const char*, size_t) {};
  ranklog_settings* const settings = ranklog_settings_new();
  EXPECT_TRUE(ranklog_settings_on_message(settings, nothing, &freed, count));
  EXPECT_TRUE(ranklog_settings_on_message(settings, nothing, &freed, count));
  EXPECT_EQ(freed, 1);
  EXPECT_TRUE(ranklog_settings_on_message(settings, nullptr, nullptr, nullptr));
  EXPECT_EQ(freed, 2);
  ranklog_settings_on_message(settings, nothing, &freed, count);
  ranklog_settings_free(settings);
  EXPECT_EQ(freed, 3);
}

}  // namespace
}  // namespace ranklog
