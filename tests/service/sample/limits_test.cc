#include "service/sample/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/sample/process/proc_file.h"
#include "tests/service/sample/fake_node.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::FakeNode;

class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() {
    node_.Write("proc/10/cgroup", "4:memory:/elsewhere\n0::/job_7/step_0\n");
    Group("", "max", "max 100000");
    Group("/job_7", "max", "max 100000");
    Group("/job_7/step_0", "max", "max 100000");
  }

  void Group(const std::string& path, const std::string& memory_max, const std::string& cpu_max) {
    node_.Write("sys/fs/cgroup" + path + "/memory.max", memory_max + "\n");
    node_.Write("sys/fs/cgroup" + path + "/cpu.max", cpu_max + "\n");
  }
  Limits Read(const std::vector<pid_t>& pids = {10}) {
    const auto mounts = ParseMounts(ReadProcFile(node_.root() + "/proc/self/mountinfo"));
    return ReadLimits(node_.root(), mounts, /*logical=*/8, pids);
  }

  FakeNode node_;
};

TEST_F(LimitsTest, NoLimitIsNone) {
  EXPECT_EQ(Read().cpus, absl::nullopt);
  EXPECT_EQ(Read().bytes, absl::nullopt);
}

TEST_F(LimitsTest, GroupOfTheProcessLimits) {
  Group("/job_7/step_0", "1000000", "250000 100000");
  const Limits limits = Read();
  EXPECT_EQ(limits.cpus, 2.5);
  EXPECT_EQ(limits.bytes, 1000000u);
  EXPECT_EQ(limits.memory_current, node_.root() + "/sys/fs/cgroup/job_7/step_0/memory.current");
}

TEST_F(LimitsTest, GroupAboveLimitsToo) {
  Group("/job_7/step_0", "2000000", "800000 100000");
  Group("/job_7", "1000000", "400000 100000");
  const Limits limits = Read();
  EXPECT_EQ(limits.cpus, 4.0);
  EXPECT_EQ(limits.bytes, 1000000u);
  EXPECT_EQ(limits.memory_current, node_.root() + "/sys/fs/cgroup/job_7/memory.current");
}

TEST_F(LimitsTest, BoundCpusLimit) {
  node_.Write("proc/10/status", "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-1\n");
  node_.Write("proc/11/status", "Cpus_allowed_list:\t1-2\n");
  EXPECT_EQ(Read({10}).cpus, 2.0);
  EXPECT_EQ(Read({10, 11}).cpus, 3.0);
  node_.Write("proc/11/status", "Cpus_allowed_list:\t0-7\n");
  EXPECT_EQ(Read({10, 11}).cpus, absl::nullopt);
}

TEST_F(LimitsTest, GoneProcessHasNoLimits) {
  Group("/job_7/step_0", "1000000", "250000 100000");
  EXPECT_EQ(Read({99}).cpus, absl::nullopt);
  EXPECT_EQ(Read({99, 10}).cpus, 2.5);
}

TEST_F(LimitsTest, GroupOutsideOfTheContainerHasNoLimits) {
  Group("", "1000000", "250000 100000");
  node_.Write("proc/10/cgroup", "0::/../other\n");
  EXPECT_EQ(Read().cpus, absl::nullopt);
}

TEST_F(LimitsTest, CoresAreCountedByTheirThreads) {
  const CpuCounts counts = ReadCpuCounts(node_.root());
  EXPECT_EQ(counts.logical, 8);
  EXPECT_EQ(counts.physical, 4);
}

TEST_F(LimitsTest, WithoutSysAllCpusAreCores) {
  node_.Remove("sys");
  EXPECT_EQ(ReadCpuCounts(node_.root()).physical, 8);
}

TEST_F(LimitsTest, CpuListIsBounded) {
  std::vector<bool> cpus;
  MarkCpus("0-2,5,x,9-,7-6,0-99999999999", cpus);
  EXPECT_THAT(cpus, ::testing::ElementsAre(true, true, true, false, false, true));
}

}  // namespace
}  // namespace ranklog::sample
