#include "service/base/steady_wait.h"

#include <gtest/gtest.h>

#include <thread>

namespace ranklog {
namespace {

// integration/clock_test shows that setting a clock changes nothing.
class SteadyWaitTest : public ::testing::Test {
 protected:
  bool Await(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const auto holds = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return set_; };
    return wait_.Await(&mutex_, timeout, holds);
  }
  void Set() {
    absl::MutexLock lock(&mutex_);
    set_ = true;
    wait_.Wake();
  }

  absl::Mutex mutex_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
  SteadyWait wait_;
};

TEST_F(SteadyWaitTest, EndsAtItsLimit) {
  const absl::Time start = SteadyNow();
  EXPECT_FALSE(Await(absl::Milliseconds(20)));
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(20));
}

TEST_F(SteadyWaitTest, TrueConditionDoesNotWait) {
  Set();
  EXPECT_TRUE(Await(absl::InfiniteDuration()));
}

TEST_F(SteadyWaitTest, NonPositiveTimeoutDoesNotWait) {
  EXPECT_FALSE(Await(absl::ZeroDuration()));
  EXPECT_FALSE(Await(-absl::InfiniteDuration()));
}

TEST_F(SteadyWaitTest, EndsWhenItIsWoken) {
  std::thread setter([this] { Set(); });
  EXPECT_TRUE(Await(absl::InfiniteDuration()));
  setter.join();
}

}  // namespace
}  // namespace ranklog
