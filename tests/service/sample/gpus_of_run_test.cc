// The GPUs of a node in the samples of its runs, from the library to the values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/sample/node_sampler.h"
#include "service/sample/run_sampler.h"
#include "tests/service/sample/fake_gpus.h"
#include "tests/service/sample/fake_node.h"
#include "tests/support/child_process.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::At;
using ::ranklog::testing::FakeGpus;
using ::ranklog::testing::FakeNode;
using ::ranklog::testing::ValueOf;
using ::ranklog::testing::WaitFor;

class GpusOfRunTest : public ::testing::Test {
 protected:
  GpusOfRunTest() {
    node_.Put({.pid = 10});
    node_.Put({.pid = 11, .parent = 10});
    node_.Put({.pid = 20});
  }

  NodeSampler::Options Options(absl::Duration gpu_wait = absl::Seconds(60)) const {
    NodeSampler::Options options = node_.Options();
    options.nvml = FAKE_NVML;
    options.gpu_wait = gpu_wait;
    return options;
  }

  FakeNode node_;
  FakeGpus fake_{"gpus 2\npids 0 99,11\npids 1 20"};
  RunSampler run_;
};

TEST_F(GpusOfRunTest, ProcessValuesAreOfTheGpusThatARunUses) {
  NodeSampler sampler(Options());
  const Values values = run_.Sample(sampler.Read(At(0)), {10});
  EXPECT_EQ(ValueOf(values, "gpu.0.gpu"), 10.0);
  EXPECT_EQ(ValueOf(values, "gpu.1.gpu"), 20.0);
  EXPECT_EQ(ValueOf(values, "gpu.process.0.gpu"), 10.0);  // its child uses it
  EXPECT_EQ(ValueOf(values, "gpu.process.0.powerPercent"), 50.0);
  EXPECT_EQ(ValueOf(values, "gpu.process.0.smClock"), absl::nullopt);
  EXPECT_EQ(ValueOf(values, "gpu.process.1.gpu"), absl::nullopt);
}

TEST_F(GpusOfRunTest, HangingDriverLeavesGpusOutOnly) {
  NodeSampler sampler(Options(/*gpu_wait=*/absl::Milliseconds(20)));
  fake_.Set("gpus 2\nhang nvmlDeviceGetPowerUsage");
  for (int tick = 0; tick < 3; ++tick) {
    const Values values = run_.Sample(sampler.Read(At(15 * tick)), {10});
    EXPECT_EQ(ValueOf(values, "gpu.0.gpu"), absl::nullopt);
    EXPECT_EQ(ValueOf(values, "memory_percent"), 25.0);
  }
  fake_.Set("gpus 2");
  EXPECT_TRUE(WaitFor(
      [&] { return ValueOf(run_.Sample(sampler.Read(At(90)), {10}), "gpu.0.gpu").has_value(); }));
}

TEST_F(GpusOfRunTest, HardwareHasTheGpus) {
  NodeSampler sampler(Options());
  const model::Json hardware = sampler.Hardware();
  EXPECT_EQ(hardware["gpu"], "Fake H100");
  EXPECT_EQ(hardware["gpu_nvidia"].size(), 2u);
  EXPECT_EQ(hardware["cpu_count"], 4);
}

TEST_F(GpusOfRunTest, WithoutDriverThereAreNoGpus) {
  fake_.Set("fail nvmlInit_v2 9");
  NodeSampler sampler(Options());
  EXPECT_TRUE(sampler.Read(At(0)).gpus.empty());
  EXPECT_FALSE(sampler.Hardware().contains("gpu_count"));
}

TEST_F(GpusOfRunTest, AmdsGpusAreReadWithoutNvidias) {
  node_.Write("sys/class/drm/card0/device/vendor", "0x1002\n");
  node_.Write("sys/class/drm/card0/device/gpu_busy_percent", "42\n");
  NodeSampler::Options options = Options();
  options.nvml = "absent.so";
  NodeSampler sampler(options);
  EXPECT_EQ(ValueOf(run_.Sample(sampler.Read(At(0)), {10}), "gpu.0.gpu"), 42.0);
}

}  // namespace
}  // namespace ranklog::sample
