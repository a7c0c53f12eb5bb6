#include "client/base/mutex.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ranklog::internal {
namespace {

volatile sig_atomic_t handled = 0;

TEST(MutexTest, HeldLockDefersSignalHandlers) {
  const auto before = signal(SIGUSR1, [](int) { handled = handled + 1; });
  Mutex mutex;
  {
    const MutexLock lock(&mutex);
    raise(SIGUSR1);
    EXPECT_EQ(handled, 0);
  }
  EXPECT_EQ(handled, 1);
  signal(SIGUSR1, before);
}

}  // namespace
}  // namespace ranklog::internal
