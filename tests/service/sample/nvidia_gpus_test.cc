#include "service/sample/gpu/nvidia_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "tests/service/sample/fake_gpus.h"
#include "tests/service/sample/fake_node.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::FakeGpus;
using ::ranklog::testing::ValueOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> NamesOf(const Values& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

class NvidiaGpusTest : public ::testing::Test {
 protected:
  NvidiaGpusTest() { EXPECT_TRUE(nvml::Load(FAKE_NVML, library_)); }

  std::vector<GpuReading> Read() { return gpus_->Read(); }
  void Open() {
    gpus_ = NvidiaGpus::Open(library_);
    ASSERT_NE(gpus_, nullptr);
  }

  FakeGpus fake_{"gpus 2"};
  nvml::Library library_;
  std::unique_ptr<NvidiaGpus> gpus_;
};

TEST_F(NvidiaGpusTest, ValuesHaveTheUnitsOfTheSdk) {
  Open();
  Read();
  const std::vector<GpuReading> gpus = Read();
  ASSERT_THAT(gpus, SizeIs(2));
  EXPECT_EQ(gpus[1].index, 1);
  const Values& values = gpus[1].values;
  EXPECT_EQ(ValueOf(values, "gpu"), 20.0);
  EXPECT_EQ(ValueOf(values, "memory"), 5.0);
  EXPECT_EQ(ValueOf(values, "memoryAllocated"), 25.0);
  EXPECT_EQ(ValueOf(values, "memoryAllocatedBytes"), 20.0 * (1 << 30));
  EXPECT_EQ(ValueOf(values, "temp"), 40.0);
  EXPECT_EQ(ValueOf(values, "powerWatts"), 350.5);
  EXPECT_EQ(ValueOf(values, "enforcedPowerLimitWatts"), 701.0);
  EXPECT_EQ(ValueOf(values, "powerPercent"), 50.0);
  EXPECT_EQ(ValueOf(values, "smClock"), 1980.0);
  EXPECT_EQ(ValueOf(values, "memoryClock"), 2619.0);
  EXPECT_EQ(ValueOf(values, "correctedMemoryErrors"), 3.0);
  EXPECT_EQ(ValueOf(values, "uncorrectedMemoryErrors"), 1.0);
  EXPECT_EQ(ValueOf(values, "fanSpeed"), 33.0);
  EXPECT_EQ(ValueOf(values, "smActive"), 2.0);
  EXPECT_EQ(ValueOf(values, "pcieTxBytes"), 20.0 * (1 << 20));
  EXPECT_EQ(ValueOf(values, "nvlinkTxBytes"), absl::nullopt);  // not supported
}

TEST_F(NvidiaGpusTest, CountersNeedTwoReadings) {
  Open();
  EXPECT_EQ(ValueOf(Read()[0].values, "smActive"), absl::nullopt);
  EXPECT_EQ(ValueOf(Read()[0].values, "smActive"), 2.0);
  fake_.Set("gpus 2\nfail nvmlGpmSampleGet 999");
  EXPECT_EQ(ValueOf(Read()[0].values, "smActive"), absl::nullopt);
  fake_.Set("gpus 2");
  EXPECT_EQ(ValueOf(Read()[0].values, "smActive"), absl::nullopt);
  EXPECT_EQ(ValueOf(Read()[0].values, "smActive"), 2.0);
}

TEST_F(NvidiaGpusTest, UnsupportedValueIsNotAskedForAgain) {
  fake_.Set(
      "gpus 1\nfail nvmlDeviceGetFanSpeed 3\nfail nvmlGpmQueryDeviceSupport 3\n"
      "fail nvmlDeviceGetUtilizationRates 3");  // as with MIG
  Open();
  fake_.Calls();
  EXPECT_EQ(ValueOf(Read()[0].values, "fanSpeed"), absl::nullopt);
  const size_t first = fake_.Calls();
  Read();
  EXPECT_EQ(fake_.Calls(), first - 4);  // those three, and the one that finds the device
}

TEST_F(NvidiaGpusTest, ReadingHasAtMostFourteenCalls) {
  Open();
  Read();
  fake_.Calls();
  Read();
  EXPECT_LE(fake_.Calls(), 2u * 14);
}

TEST_F(NvidiaGpusTest, FailedValueIsAskedForAgain) {
  Open();
  fake_.Set("gpus 2\nfail@0 nvmlDeviceGetTemperature 999");
  EXPECT_EQ(ValueOf(Read()[0].values, "temp"), absl::nullopt);
  EXPECT_EQ(ValueOf(Read()[1].values, "temp"), 40.0);
  fake_.Set("gpus 2");
  EXPECT_EQ(ValueOf(Read()[0].values, "temp"), 30.0);
}

TEST_F(NvidiaGpusTest, EachFunctionMayFail) {
  Open();
  Read();
  const std::vector<std::string> all = NamesOf(Read()[0].values);
  for (const char* const function :
       {"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetMemoryErrorCounter", "nvmlDeviceGetFanSpeed", "nvmlGpmMetricsGet"}) {
    fake_.Set(absl::StrCat("gpus 2\nfail ", function, " 999"));
    const std::vector<std::string> some = NamesOf(Read()[0].values);
    EXPECT_LT(some.size(), all.size()) << function;
    EXPECT_GE(some.size() + 10, all.size()) << function << absl::StrJoin(some, " ");
  }
  fake_.Set("gpus 2");
  EXPECT_EQ(NamesOf(Read()[0].values), all);
}

TEST_F(NvidiaGpusTest, LostGpuLeavesTheOthers) {
  Open();
  Read();
  fake_.Set("gpus 2\nfail@0 nvmlDeviceGetUtilizationRates 15");
  fake_.Calls();
  const std::vector<GpuReading> gpus = Read();
  EXPECT_THAT(gpus[0].values, IsEmpty());
  EXPECT_EQ(ValueOf(gpus[1].values, "gpu"), 20.0);
  EXPECT_LE(fake_.Calls(), 15u);  // one for the lost one
  fake_.Set("gpus 2");
  EXPECT_EQ(ValueOf(Read()[0].values, "gpu"), 10.0);
}

TEST_F(NvidiaGpusTest, GpuWithoutAHandleIsTriedAgain) {
  fake_.Set("gpus 2\nfail@0 nvmlDeviceGetHandleByIndex_v2 15");
  Open();
  EXPECT_EQ(gpus_->Hardware()["gpu_count"], 2);
  EXPECT_THAT(Read()[0].values, IsEmpty());
  fake_.Set("gpus 2");
  EXPECT_EQ(ValueOf(Read()[0].values, "gpu"), 10.0);
}

TEST_F(NvidiaGpusTest, ManyProcessesAreListed) {
  std::string pids = "1";
  for (int pid = 2; pid <= 300; ++pid) absl::StrAppend(&pids, ",", pid);
  fake_.Set("gpus 2\npids 0 " + pids + "\npids 1 7");
  Open();
  const std::vector<GpuReading> gpus = Read();
  EXPECT_THAT(gpus[0].pids, SizeIs(300));
  EXPECT_THAT(gpus[1].pids, ElementsAre(7));
}

TEST_F(NvidiaGpusTest, FactsDescribeEachGpu) {
  Open();
  EXPECT_EQ(gpus_->Hardware(), model::Json::parse(R"({
    "gpu": "Fake H100", "gpu_count": 2,
    "gpu_nvidia": [
      {"name": "Fake H100", "memoryTotal": "85899345920", "cudaCores": 16896,
       "architecture": "Hopper", "uuid": "GPU-0"},
      {"name": "Fake H100", "memoryTotal": "85899345920", "cudaCores": 16896,
       "architecture": "Hopper", "uuid": "GPU-1"}],
    "cudaVersion": "12.4"})"));
}

TEST_F(NvidiaGpusTest, WithoutDriverOrGpusThereAreNone) {
  fake_.Set("fail nvmlInit_v2 9");
  EXPECT_EQ(NvidiaGpus::Open(library_), nullptr);
  fake_.Set("fail nvmlDeviceGetCount_v2 999");
  EXPECT_EQ(NvidiaGpus::Open(library_), nullptr);
  fake_.Set("gpus 0");
  EXPECT_EQ(NvidiaGpus::Open(library_), nullptr);
}

TEST_F(NvidiaGpusTest, AbsentFunctionsLeaveTheirValuesOut) {
  nvml::Library few;
  few.Init = library_.Init;
  few.DeviceCount = library_.DeviceCount;
  few.DeviceByIndex = library_.DeviceByIndex;
  few.Temperature = library_.Temperature;
  const std::unique_ptr<NvidiaGpus> gpus = NvidiaGpus::Open(few);
  for (int reading = 0; reading < 2; ++reading) {
    EXPECT_THAT(NamesOf(gpus->Read()[1].values), ElementsAre("temp"));
  }
  EXPECT_EQ(gpus->Hardware()["gpu_count"], 2);
}

TEST(NvmlTest, OtherLibrariesAreRefused) {
  nvml::Library library;
  EXPECT_FALSE(nvml::Load("absent.so", library));
  EXPECT_FALSE(nvml::Load("libm.so.6", library));
}

}  // namespace
}  // namespace ranklog::sample
