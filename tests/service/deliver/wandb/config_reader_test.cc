#include "service/deliver/wandb/documents/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/deliver/json/json_writer.h"
#include "tests/service/deliver/wandb/stored_run.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing::StoredRun;

class ConfigReaderTest : public ::testing::Test {
 protected:
  // The config, or nullopt if it is unchanged.
  absl::optional<ConfigReader::Config> Read(bool expand_globs = false) {
    return config_.Read(stored_.reader(), stored_.run(), expand_globs).value();
  }

  StoredRun stored_{"http://server"};
  ConfigReader config_;
};

TEST_F(ConfigReaderTest, ReturnsOnlyChangedConfigs) {
  EXPECT_EQ(config_.items(), -1);
  ASSERT_TRUE(Read().has_value());
  EXPECT_FALSE(Read().has_value());
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}});
  const absl::optional<ConfigReader::Config> changed = Read();
  ASSERT_TRUE(changed.has_value());
  EXPECT_THAT(ToJsonText(changed->config), HasSubstr("\"lr\""));
  EXPECT_THAT(changed->summary, IsEmpty());
  EXPECT_GT(config_.items(), 0);
}

TEST_F(ConfigReaderTest, ReturnsValuesOfTheSummary) {
  stored_.Apply(model::Item::Kind::kSummary, {{"best", 0.25}});
  const absl::optional<ConfigReader::Config> config = Read();
  ASSERT_TRUE(config.has_value());
  ASSERT_THAT(config->summary, SizeIs(1));
  EXPECT_EQ(config->summary[0].key, "best");
}

TEST_F(ConfigReaderTest, ReturnsAllSingleItems) {
  stored_.Apply(model::Item::Kind::kAlert, {{"title", "one"}});
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}});
  ASSERT_THAT(Read()->singles, SizeIs(1));
  stored_.Apply(model::Item::Kind::kAlert, {{"title", "two"}});
  const absl::optional<ConfigReader::Config> config = Read();
  ASSERT_TRUE(config.has_value());
  ASSERT_THAT(config->singles, SizeIs(2));
  EXPECT_EQ(config->singles[1].item.object["title"], "two");
}

TEST_F(ConfigReaderTest, ExpandsGlobsByRunShapes) {
  model::MetricDefinition metric;
  metric.name = "lo*";
  stored_.Define(metric);
  EXPECT_THAT(ToJsonText(Read()->metrics), Not(HasSubstr("\"loss\"")));
  ConfigReader expanding;
  const auto expanded =
      expanding.Read(stored_.reader(), stored_.run(), /*expand_globs=*/true).value();
  EXPECT_THAT(ToJsonText(expanded->metrics), HasSubstr("\"loss\""));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
