#include "service/sample/run_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "service/base/clock.h"
#include "service/sample/node_sampler.h"
#include "tests/service/sample/fake_node.h"
#include "tests/support/child_process.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::At;
using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::FakeNode;
using ::ranklog::testing::ValueOf;
using ::ranklog::testing::WaitFor;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Optional;

class RunSamplerTest : public ::testing::Test {
 protected:
  RunSamplerTest() { node_.Put({.pid = 10, .cpu = 500, .pages = 2560, .threads = 3}); }

  Values Sample(double seconds, const std::vector<pid_t>& pids = {10}) {
    return run_.Sample(sampler_.Read(At(seconds)), pids);
  }

  FakeNode node_;
  NodeSampler sampler_{node_.Options()};
  RunSampler run_;
  const double ticks_ = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double mib_ = static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);  // of a page
};

TEST_F(RunSamplerTest, OrderIsStable) {
  Sample(0);
  std::vector<std::string> names;
  for (const auto& [name, value] : Sample(15)) names.push_back(name);
  EXPECT_THAT(names,
              ElementsAre("cpu", "memory_percent", "proc.memory.availableMB", "proc.memory.rssMB",
                          "proc.memory.percent", "proc.cpu.threads", "network.sent", "network.recv",
                          "network.tcpRetransmits", "disk./.usagePercent", "disk./.usageGB",
                          "disk.sda1.in", "disk.sda1.out"));
}

TEST_F(RunSamplerTest, CpuIsOfAllCores) {
  EXPECT_EQ(ValueOf(Sample(0), "cpu"), absl::nullopt);
  // Two CPUs of four cores.
  node_.Put({.pid = 10, .cpu = 500 + static_cast<uint64_t>(15 * ticks_)});
  node_.Put({.pid = 11, .parent = 10, .start = 101, .cpu = static_cast<uint64_t>(15 * ticks_)});
  EXPECT_THAT(ValueOf(Sample(15), "cpu"), Optional(DoubleNear(50, 0.01)));
  EXPECT_THAT(ValueOf(Sample(30), "cpu"), Optional(0.0));
}

TEST_F(RunSamplerTest, CpuIsOfTheGroupsLimit) {
  node_.Write("proc/10/cgroup", "0::/job\n");
  node_.Write("sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  Sample(0);
  node_.Put({.pid = 10, .cpu = 500 + static_cast<uint64_t>(15 * ticks_)});
  EXPECT_THAT(ValueOf(Sample(15), "cpu"), Optional(DoubleNear(50, 0.01)));
}

TEST_F(RunSamplerTest, TwoReadingsAtOneTimeHaveNoCpu) {
  Sample(0);
  EXPECT_EQ(ValueOf(Sample(0), "cpu"), absl::nullopt);
}

TEST_F(RunSamplerTest, MemoryIsOfTheNode) {
  const Values values = Sample(0);
  EXPECT_EQ(ValueOf(values, "memory_percent"), 25.0);
  EXPECT_EQ(ValueOf(values, "proc.memory.availableMB"), 750.0);
  EXPECT_EQ(ValueOf(values, "proc.memory.rssMB"), 2560 * mib_);
  EXPECT_EQ(ValueOf(values, "proc.memory.percent"), 2560 * mib_ / 10);
  EXPECT_EQ(ValueOf(values, "proc.cpu.threads"), 3.0);
}

TEST_F(RunSamplerTest, MemoryIsOfTheGroupsLimit) {
  node_.Write("proc/10/cgroup", "0::/job\n");
  node_.Write("sys/fs/cgroup/job/memory.max", absl::StrCat(200 << 20, "\n"));
  node_.Write("sys/fs/cgroup/job/memory.current", absl::StrCat(50 << 20, "\n"));
  Values values = Sample(0);
  EXPECT_EQ(ValueOf(values, "memory_percent"), 25.0);
  EXPECT_EQ(ValueOf(values, "proc.memory.availableMB"), 150.0);
  EXPECT_EQ(ValueOf(values, "proc.memory.percent"), 2560 * mib_ / 2);

  node_.Write("sys/fs/cgroup/job/memory.current", absl::StrCat(300 << 20, "\n"));
  EXPECT_EQ(ValueOf(Sample(15), "proc.memory.availableMB"), 0.0);
  node_.Remove("sys/fs/cgroup/job");
  EXPECT_EQ(ValueOf(Sample(30), "proc.memory.availableMB"), 750.0);
}

TEST_F(RunSamplerTest, TrafficCountsFromTheFirstSample) {
  EXPECT_EQ(ValueOf(Sample(0), "network.recv"), 0.0);
  node_.Traffic("eth0", 1100, 2020);
  node_.Disk(2048, 4096);
  node_.Write("proc/net/snmp", "Tcp: RtoMin RetransSegs\nTcp: 200 57\n");
  const Values values = Sample(15);
  EXPECT_EQ(ValueOf(values, "network.recv"), 100.0);
  EXPECT_EQ(ValueOf(values, "network.sent"), 20.0);
  EXPECT_EQ(ValueOf(values, "network.tcpRetransmits"), 7.0);
  EXPECT_EQ(ValueOf(values, "disk.sda1.in"), 1.0);
  EXPECT_EQ(ValueOf(values, "disk.sda1.out"), 2.0);

  RunSampler later;
  EXPECT_EQ(ValueOf(later.Sample(sampler_.Read(At(15)), {10}), "network.recv"), 0.0);
}

TEST_F(RunSamplerTest, TrafficNeverDecreases) {
  Sample(0);
  node_.Traffic("eth0", 1100, 2000);
  Sample(15);
  node_.Traffic("eth0", 30, 0);  // reset
  EXPECT_EQ(ValueOf(Sample(30), "network.recv"), 130.0);
  node_.Traffic("eth1", 5000, 0);  // another interface instead
  EXPECT_EQ(ValueOf(Sample(45), "network.recv"), 130.0);
  node_.Traffic("eth1", 5005, 0);
  EXPECT_EQ(ValueOf(Sample(60), "network.recv"), 135.0);
}

TEST_F(RunSamplerTest, WithoutProcessesTheirValuesAreMissing) {
  Sample(0);
  node_.End(10);
  const Values values = Sample(15);
  EXPECT_EQ(ValueOf(values, "cpu"), absl::nullopt);
  EXPECT_EQ(ValueOf(values, "proc.memory.rssMB"), absl::nullopt);
  EXPECT_EQ(ValueOf(values, "proc.cpu.threads"), absl::nullopt);
  EXPECT_EQ(ValueOf(values, "memory_percent"), 25.0);
}

TEST_F(RunSamplerTest, ReusedPidOfARankDoesNotCount) {
  Sample(0);
  node_.Put({.pid = 10, .start = 900, .threads = 7});
  EXPECT_EQ(ValueOf(Sample(15), "proc.cpu.threads"), absl::nullopt);
  Sample(30, {});
  EXPECT_EQ(ValueOf(Sample(45), "proc.cpu.threads"), 7.0);  // a new rank
}

TEST_F(RunSamplerTest, CoresAreOnDemand) {
  NodeSampler::Options options = node_.Options();
  options.per_core = true;
  NodeSampler sampler(options);
  EXPECT_EQ(ValueOf(run_.Sample(sampler.Read(At(0)), {10}), "cpu.0.cpu_percent"), absl::nullopt);
  node_.Write("proc/stat", "cpu 0\ncpu0 40 0 10 150 0 0 0 0 0 0\ncpu2 10 0 10 80 0 0 0 0 0 0\n");
  const Values values = run_.Sample(sampler.Read(At(15)), {10});
  EXPECT_EQ(ValueOf(values, "cpu.0.cpu_percent"), 30.0);
  EXPECT_EQ(ValueOf(values, "cpu.1.cpu_percent"), absl::nullopt);
  EXPECT_EQ(ValueOf(values, "cpu.2.cpu_percent"), absl::nullopt);  // it did not run
}

// A shell whose child allocates 64 MiB, and then keeps a CPU busy until the shell ends.
TEST(RunSamplerOfRealProcessesTest, ChildOfARankCounts) {
  const ChildProcess rank(
      {"bash", "-c",
       "(x=$(head -c 64M /dev/zero | tr '\\0' x); while kill -0 $$; do :; done) & wait"});
  NodeSampler sampler({});
  RunSampler run;
  const std::vector<pid_t> pids = {rank.pid()};
  EXPECT_TRUE(WaitFor([&] {
    return ValueOf(run.Sample(sampler.Read(SteadyNow()), pids), "proc.memory.rssMB") >= 64.0;
  }));
  // A fifth of a core at least, also on a busy machine and one with many cores.
  EXPECT_TRUE(WaitFor([&] {
    const NodeReading reading = sampler.Read(SteadyNow());
    const double cpu = ValueOf(run.Sample(reading, pids), "cpu").value_or(0);
    return cpu * reading.facts->cpus.physical > 20;
  }));
  const Values values = run.Sample(sampler.Read(SteadyNow()), pids);
  EXPECT_GE(ValueOf(values, "proc.cpu.threads").value_or(0), 2.0);
  EXPECT_GT(ValueOf(values, "proc.memory.percent").value_or(0), 0.0);
}

TEST(RunSamplerOfRealProcessesTest, EverythingIsFinite) {
  NodeSampler sampler({.per_core = true});
  RunSampler run;
  run.Sample(sampler.Read(SteadyNow()), {getpid()});
  for (const auto& [name, value] : run.Sample(sampler.Read(SteadyNow()), {getpid()})) {
    EXPECT_TRUE(std::isfinite(value)) << name;
    EXPECT_GE(value, 0) << name;
  }
}

}  // namespace
}  // namespace ranklog::sample
