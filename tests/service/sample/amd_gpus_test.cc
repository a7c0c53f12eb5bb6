#include "service/sample/gpu/amd_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/sample/fake_node.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::FakeNode;
using ::ranklog::testing::ValueOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AmdGpusTest : public ::testing::Test {
 protected:
  void Card(const std::string& card, const std::string& vendor) {
    node_.Write("sys/class/drm/" + card + "/device/vendor", vendor + "\n");
  }
  void Put(const std::string& file, const std::string& content) {
    node_.Write("sys/class/drm/card1/device/" + file, content + "\n");
  }

  FakeNode node_;
};

TEST_F(AmdGpusTest, WithoutCardsThereAreNone) {
  EXPECT_EQ(AmdGpus::Open(node_.root()), nullptr);
  Card("card0", "0x1a03");  // the display of a server
  EXPECT_EQ(AmdGpus::Open(node_.root()), nullptr);
}

TEST_F(AmdGpusTest, ValuesHaveTheUnitsOfTheSdk) {
  Card("card0", "0x1a03");
  Card("card1", "0x1002");
  Card("card1-DP-1", "0x1002");  // a connector
  Put("gpu_busy_percent", "42");
  Put("mem_busy_percent", "7");
  Put("mem_info_vram_used", "1000");
  Put("mem_info_vram_total", "4000");
  Put("hwmon/hwmon3/temp1_label", "edge");
  Put("hwmon/hwmon3/temp3_label", "mem");
  Put("hwmon/hwmon3/temp1_input", "30000");
  Put("hwmon/hwmon3/temp3_input", "53000");
  Put("hwmon/hwmon3/power1_average", "280000000");
  Put("hwmon/hwmon3/power1_cap", "560000000");
  const std::unique_ptr<AmdGpus> gpus = AmdGpus::Open(node_.root());
  ASSERT_NE(gpus, nullptr);
  const std::vector<GpuReading> readings = gpus->Read();
  ASSERT_THAT(readings, SizeIs(1));
  EXPECT_EQ(readings[0].index, 0);
  const Values& values = readings[0].values;
  EXPECT_EQ(ValueOf(values, "gpu"), 42.0);
  EXPECT_EQ(ValueOf(values, "memoryReadWriteActivity"), 7.0);
  EXPECT_EQ(ValueOf(values, "memoryAllocated"), 25.0);
  EXPECT_EQ(ValueOf(values, "temp"), 53.0);
  EXPECT_EQ(ValueOf(values, "powerWatts"), 280.0);
  EXPECT_EQ(ValueOf(values, "powerPercent"), 50.0);
}

TEST_F(AmdGpusTest, CardWithoutFilesHasNoValues) {
  Card("card1", "0x1002");
  const std::unique_ptr<AmdGpus> gpus = AmdGpus::Open(node_.root());
  EXPECT_THAT(gpus->Read().at(0).values, IsEmpty());
  node_.Remove("sys");
  EXPECT_THAT(gpus->Read().at(0).values, IsEmpty());
}

TEST_F(AmdGpusTest, FactsNameTheCard) {
  Card("card1", "0x1002");
  Put("unique_id", "719d230578348e8c");
  Put("product_name", "AMD Instinct MI250");
  EXPECT_EQ(AmdGpus::Open(node_.root())->Hardware(), model::Json::parse(R"({
    "gpu": "AMD Instinct MI250", "gpu_count": 1,
    "gpu_amd": [{"id": "0", "uniqueId": "719d230578348e8c", "series": "AMD Instinct MI250"}]})"));
}

}  // namespace
}  // namespace ranklog::sample
