#include "trainer/parallel/placement.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kFailed = absl::StatusCode::kFailedPrecondition;
const Gpus kNotBuilt;
const Gpus kNoDriver{.built = true, .error = "Found no NVIDIA driver on your system"};
const Gpus kTwo{.built = true, .count = 2};

TEST(PlacementTest, AutoUsesGpuOfLocalRank) {
  ASSERT_OK_AND_ASSIGN(const Placement second, ChoosePlacement(Comm::kAuto, 1, kTwo));
  EXPECT_TRUE(second.nccl);
  EXPECT_EQ(second.device, c10::Device(c10::kCUDA, 1));
}

TEST(PlacementTest, AutoWithoutGpuReportsCpuFallback) {
  ASSERT_OK_AND_ASSIGN(const Placement fallback, ChoosePlacement(Comm::kAuto, 0, kNoDriver));
  EXPECT_FALSE(fallback.nccl);
  EXPECT_TRUE(fallback.device.is_cpu());
  EXPECT_EQ(fallback.note, "Found no NVIDIA driver on your system");
}

TEST(PlacementTest, BuildWithoutCudaGivesNoNote) {
  ASSERT_OK_AND_ASSIGN(const Placement cpu, ChoosePlacement(Comm::kAuto, 0, kNotBuilt));
  EXPECT_TRUE(cpu.device.is_cpu());
  EXPECT_EQ(cpu.note, "");
}

TEST(PlacementTest, GlooComputesOnTheCpu) {
  ASSERT_OK_AND_ASSIGN(const Placement cpu, ChoosePlacement(Comm::kGloo, 0, kTwo));
  EXPECT_FALSE(cpu.nccl);
  EXPECT_TRUE(cpu.device.is_cpu());
}

TEST(PlacementTest, NcclNamesWhatIsMissing) {
  EXPECT_THAT(ChoosePlacement(Comm::kNccl, 0, kNotBuilt),
              StatusIs(kFailed, HasSubstr("--comm nccl: this build has no NCCL")));
  EXPECT_THAT(ChoosePlacement(Comm::kNccl, 0, kNoDriver),
              StatusIs(kFailed, HasSubstr("--comm nccl: Found no NVIDIA driver on your system")));
}

TEST(PlacementTest, MoreRanksThanGpusAreRefused) {
  for (const Comm comm : {Comm::kAuto, Comm::kNccl}) {
    EXPECT_THAT(ChoosePlacement(comm, 2, kTwo),
                StatusIs(kFailed, HasSubstr("local rank 2 has no GPU")));
  }
}

TEST(PlacementTest, OneRankForEachGpu) {
  ASSERT_OK_AND_ASSIGN(const int ranks, RanksOfGpus(kTwo));
  EXPECT_EQ(ranks, 2);
  EXPECT_THAT(RanksOfGpus(kNotBuilt),
              StatusIs(kFailed, HasSubstr("--nproc-per-node gpu: this build has no NCCL")));
  EXPECT_THAT(RanksOfGpus(kNoDriver),
              StatusIs(kFailed, HasSubstr("gpu: Found no NVIDIA driver on your system")));
}

TEST(PlacementTest, OwnGpuIsDeviceZero) {  // srun --gpus-per-task 1
  ASSERT_OK_AND_ASSIGN(
      const Placement own,
      ChoosePlacement(Comm::kNccl, 3, Gpus{.built = true, .count = 1, .own = true}));
  EXPECT_EQ(own.device, c10::Device(c10::kCUDA, 0));
}

}  // namespace
}  // namespace ranklog::trainer
