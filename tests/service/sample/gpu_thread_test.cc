#include "service/sample/gpu/gpu_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "service/base/clock.h"
#include "tests/support/child_process.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::WaitFor;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(20);

// What the test shares with its sources, which may outlive it.
struct Driver {
  // A call of the driver hangs while this is true.
  void Hang(bool on) {
    const absl::MutexLock lock(&mutex);
    hangs = on;
  }
  void Enter() {
    const absl::MutexLock lock(&mutex);
    ++calls;
    mutex.Await(absl::Condition(
        +[](bool* hang) { return !*hang; }, &hangs));
  }
  int Calls() {
    const absl::MutexLock lock(&mutex);
    return calls;
  }

  absl::Mutex mutex;
  bool hangs = false;
  int calls = 0;
  absl::Notification closed;
};

class DrivenGpus : public GpuSource {
 public:
  explicit DrivenGpus(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  ~DrivenGpus() override { driver_->closed.Notify(); }
  std::vector<GpuReading> Read() override {
    driver_->Enter();
    GpuReading reading;
    reading.index = ++readings_;
    return {reading};
  }
  model::Json Hardware() override { return {{"gpu_count", 1}}; }

 private:
  const std::shared_ptr<Driver> driver_;
  int readings_ = 0;
};

class GpuThreadTest : public ::testing::Test {
 protected:
  std::function<std::unique_ptr<GpuSource>()> Open() {
    return [driver = driver_] { return std::make_unique<DrivenGpus>(driver); };
  }

  // Shared by the test and its sources.
  std::shared_ptr<Driver> driver_ = std::make_shared<Driver>();
};

TEST_F(GpuThreadTest, EachReadingIsNew) {
  GpuThread thread(Open());
  for (int i = 1; i <= 3; ++i) {
    const std::vector<GpuReading> readings = thread.Read(kLong);
    ASSERT_THAT(readings, SizeIs(1));
    EXPECT_EQ(readings[0].index, i);
  }
  EXPECT_EQ(thread.Hardware(kLong)["gpu_count"], 1);
}

TEST_F(GpuThreadTest, HangingDriverDelaysOneReadingOnly) {
  GpuThread thread(Open());
  driver_->Hang(true);
  EXPECT_THAT(thread.Read(kShort), IsEmpty());
  ASSERT_TRUE(WaitFor([&] { return driver_->Calls() == 1; }));
  const absl::Time before = SteadyNow();
  EXPECT_THAT(thread.Read(kLong), IsEmpty());  // at once
  EXPECT_LT(SteadyNow() - before, kLong / 2);
  EXPECT_EQ(driver_->Calls(), 1);

  driver_->Hang(false);
  std::vector<GpuReading> readings;
  EXPECT_TRUE(WaitFor([&] { return !(readings = thread.Read(kLong)).empty(); }));
  EXPECT_EQ(readings[0].index, 2);  // the late one is not delivered
}

TEST_F(GpuThreadTest, DestructorClosesTheSource) {
  { const GpuThread thread(Open()); }
  EXPECT_TRUE(driver_->closed.HasBeenNotified());
}

TEST_F(GpuThreadTest, DestructorLeavesAHangingDriverBehind) {
  driver_->Hang(true);
  {
    GpuThread thread(Open());
    EXPECT_THAT(thread.Read(kShort), IsEmpty());
    ASSERT_TRUE(WaitFor([&] { return driver_->Calls() == 1; }));
  }
  EXPECT_FALSE(driver_->closed.HasBeenNotified());
  driver_->Hang(false);
  driver_->closed.WaitForNotification();
}

TEST_F(GpuThreadTest, WithoutSourceReadingsAreEmpty) {
  GpuThread thread([] { return nullptr; });
  EXPECT_THAT(thread.Read(kLong), IsEmpty());
  EXPECT_THAT(thread.Hardware(kLong), IsEmpty());
}

}  // namespace
}  // namespace ranklog::sample
