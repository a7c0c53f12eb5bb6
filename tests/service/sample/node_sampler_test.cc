#include "service/sample/node_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/base/clock.h"
#include "tests/service/sample/fake_node.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::At;
using ::ranklog::testing::FakeNode;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(NodeSamplerTest, ReadingHasTheWholeNode) {
  const FakeNode node;
  node.Put({.pid = 10});
  NodeSampler sampler(node.Options());
  const NodeReading reading = sampler.Read(At(5));
  EXPECT_EQ(reading.time, At(5));
  EXPECT_EQ(reading.memory->total, 1000u << 20);
  ASSERT_THAT(*reading.network, SizeIs(1));
  EXPECT_THAT(reading.processes.processes(), SizeIs(1));
  EXPECT_THAT(reading.disk_usage, SizeIs(1));
  EXPECT_THAT(reading.cores, IsEmpty());
  EXPECT_THAT(reading.gpus, IsEmpty());
}

TEST(NodeSamplerTest, FilesAreReadAgain) {
  const FakeNode node;
  NodeSampler sampler(node.Options());
  sampler.Read(At(0));
  node.Traffic("eth0", 5000, 6000);
  node.Write("proc/meminfo", "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n");
  const NodeReading reading = sampler.Read(At(15));
  EXPECT_EQ(reading.memory->total, 2u << 20);
  EXPECT_EQ(reading.network->at(0).in, 5000u);
}

TEST(NodeSamplerTest, MemberOfABondDoesNotCountTwice) {
  const FakeNode node;
  node.Write("sys/class/net/eth0/master", "");
  NodeSampler sampler(node.Options());
  EXPECT_THAT(*sampler.Read(At(0)).network, IsEmpty());
  node.Traffic("bond0", 5000, 6000);
  EXPECT_THAT(*sampler.Read(At(15)).network, SizeIs(1));
}

TEST(NodeSamplerTest, DiskIsTheDeviceOfThePath) {
  const FakeNode node;
  NodeSampler sampler(node.Options());
  const NodeReading reading = sampler.Read(At(0));
  ASSERT_THAT(reading.disks, SizeIs(1));
  EXPECT_EQ(reading.disks[0].device, "sda1");
}

TEST(NodeSamplerTest, OverlayHasAllDisksButPseudoDisks) {
  const FakeNode node;
  node.Write("proc/self/mountinfo", "22 1 0:50 / / rw - overlay overlay rw\n");
  NodeSampler sampler(node.Options());
  const NodeReading reading = sampler.Read(At(0));
  ASSERT_THAT(reading.disks, SizeIs(2));
  EXPECT_EQ(reading.disks[0].device, "sda");
  EXPECT_EQ(reading.disks[1].device, "sda1");
}

TEST(NodeSamplerTest, AbsentPathHasNoUsage) {
  const FakeNode node;
  NodeSampler::Options options = node.Options();
  options.disk_paths = {"/absent", "/proc"};
  const NodeReading reading = NodeSampler(options).Read(At(0));
  ASSERT_THAT(reading.disk_usage, SizeIs(1));
  EXPECT_EQ(reading.disk_usage[0].path, "/proc");
  EXPECT_GT(reading.disk_usage[0].total, reading.disk_usage[0].used);
}

TEST(NodeSamplerTest, EmptyRootGivesAnEmptyReading) {
  const FakeNode node;
  node.Remove("proc");
  node.Remove("sys");
  NodeSampler sampler(node.Options());
  const NodeReading reading = sampler.Read(At(0));
  EXPECT_FALSE(reading.memory.has_value());
  EXPECT_FALSE(reading.network.has_value());
  EXPECT_THAT(reading.disks, IsEmpty());
  EXPECT_THAT(reading.processes.processes(), IsEmpty());
  const model::Json hardware = sampler.Hardware();
  EXPECT_THAT(hardware, SizeIs(1)) << hardware;  // the disk
}

TEST(NodeSamplerTest, HardwareWritesLargeNumbersAsStrings) {
  const FakeNode node;
  const model::Json hardware = NodeSampler(node.Options()).Hardware();
  EXPECT_EQ(hardware["cpu_count"], 4);
  EXPECT_EQ(hardware["cpu_count_logical"], 8);
  EXPECT_EQ(hardware["memory"]["total"], "1048576000");
  EXPECT_TRUE(hardware["disk"]["/"]["total"].is_string());
  EXPECT_FALSE(hardware.contains("gpu_count"));
}

TEST(NodeSamplerTest, ThisMachineIsRead) {
  NodeSampler sampler({});
  const NodeReading reading = sampler.Read(SteadyNow());
  ASSERT_TRUE(reading.memory.has_value());
  EXPECT_GT(reading.memory->total, reading.memory->available);
  EXPECT_TRUE(reading.network.has_value());
  EXPECT_THAT(reading.disk_usage, SizeIs(1));
  EXPECT_NE(reading.processes.Find(getpid()), nullptr);
  EXPECT_GT(reading.facts->cpus.logical, 0);
  EXPECT_GT(sampler.Hardware()["cpu_count"].get<int>(), 0);
}

}  // namespace
}  // namespace ranklog::sample
