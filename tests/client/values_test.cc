#include "client/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ranklog/run.h"

namespace ranklog::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class AlertTest : public ::testing::Test {
 protected:
  // The members of the alert, or the error.
  static std::map<std::string, std::string> Convert(const std::string& title,
                                                    const std::string& text, int level,
                                                    int64_t wait_ms) {
    ranklog_alert_options options = RANKLOG_ALERT_OPTIONS_INIT;
    options.title = title.data();
    options.title_bytes = title.size();
    options.text = text.data();
    options.text_bytes = text.size();
    options.level = level;
    options.wait_ms = wait_ms;
    v1::Object alert;
    const absl::Status status = ToProto(options, &alert);
    if (!status.ok()) return {{"error", std::string(status.message())}};
    std::map<std::string, std::string> members;
    for (const v1::Field& field : alert.fields()) {
      const v1::Value& value = field.value();
      members[field.key()] = value.has_text() ? value.text() : absl::StrCat(value.integer());
    }
    return members;
  }
  static std::string ErrorOfTitle(const std::string& title) {
    return Convert(title, "", 0, 0)["error"];
  }
};

TEST_F(AlertTest, HasTheMembersOfTheItem) {
  EXPECT_THAT(Convert("title", "text", RANKLOG_ALERT_WARN, 1500),
              ElementsAre(Pair("level", "WARN"), Pair("text", "text"), Pair("title", "title"),
                          Pair("wait_ms", "1500")));
  EXPECT_EQ(Convert("t", "", RANKLOG_ALERT_INFO, 0)["level"], "INFO");
  EXPECT_EQ(Convert("t", "", RANKLOG_ALERT_ERROR, 0)["level"], "ERROR");
}

TEST_F(AlertTest, TitleHasUpTo64Characters) {
  std::string title;
  for (int i = 0; i < 64; ++i) title += "\u00e4";
  EXPECT_EQ(ErrorOfTitle(title), "");
  EXPECT_THAT(ErrorOfTitle(title + "b"), HasSubstr("more than 64 characters"));
  EXPECT_THAT(ErrorOfTitle(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOfTitle("\xff"), HasSubstr("UTF-8"));
}

TEST_F(AlertTest, RefusesOtherLevelsAndWaits) {
  EXPECT_THAT(Convert("t", "", 3, 0)["error"], HasSubstr("level"));
  EXPECT_THAT(Convert("t", "", -1, 0)["error"], HasSubstr("level"));
  EXPECT_THAT(Convert("t", "", 0, -1)["error"], HasSubstr("wait"));
  EXPECT_THAT(Convert("t", "\xff", 0, 0)["error"], HasSubstr("UTF-8"));
}

std::string ErrorOfArtifact(const std::vector<ranklog_field>& metadata, const char* alias) {
  ranklog_artifact artifact = RANKLOG_ARTIFACT_INIT;
  artifact.name = "gpt";
  artifact.type = "model";
  artifact.metadata = metadata.data();
  artifact.metadata_count = metadata.size();
  artifact.aliases = &alias;
  artifact.alias_count = 1;
  v1::Object object;
  return std::string(ToProto(artifact, &object).message());
}

TEST(ArtifactTest, MetadataThatNoJsonCanHaveIsRefused) {
  const Value nan(std::nan(""));
  ranklog_field field = nan.field();
  field.key = "loss";
  field.key_bytes = 4;
  EXPECT_THAT(ErrorOfArtifact({field}, "latest"), HasSubstr("not finite"));
  EXPECT_EQ(ErrorOfArtifact({}, "latest"), "");
}

TEST(ArtifactTest, AliasOfAPathIsRefused) {
  EXPECT_THAT(ErrorOfArtifact({}, "best/1"), HasSubstr("alias"));
  EXPECT_THAT(ErrorOfArtifact({}, "v:1"), HasSubstr("alias"));
}

TEST(ArtifactTest, NullListIsRefused) {
  ranklog_artifact artifact = RANKLOG_ARTIFACT_INIT;
  artifact.name = artifact.type = "gpt";
  artifact.path_count = 1;
  v1::Object object;
  EXPECT_THAT(ToProto(artifact, &object).ToString(), HasSubstr("null list"));
}

TEST(FileNameTest, OwnFilesAreRefused) {
  EXPECT_THAT(FileNameError("config.yaml"), HasSubstr("another name"));
  EXPECT_EQ(FileNameError("hydra/config.yaml"), "");
}

}  // namespace
}  // namespace ranklog::internal
