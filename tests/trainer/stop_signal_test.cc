#include "trainer/base/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace ranklog::trainer {
namespace {

TEST(StopSignalTest, SigtermAndSigusr1RequestStop) {
  for (const int number : {SIGTERM, SIGUSR1}) {
    const StopSignal stop;
    EXPECT_EQ(stop.received(), 0);
    raise(number);
    EXPECT_EQ(stop.received(), number);
    raise(SIGTERM);  // at once: a launcher passed it on
    raise(SIGUSR1);
    EXPECT_EQ(stop.received(), number);
  }
}

TEST(StopSignalTest, ASecondSignalEndsTheProcess) {
  for (const int number : {SIGTERM, SIGUSR1}) {
    EXPECT_EXIT(
        {
          const StopSignal stop;
          raise(SIGUSR1);
          usleep(2'010'000);  // long enough to count as a second signal
          raise(number);
          _exit(stop.received());
        },
        ::testing::KilledBySignal(number), "");
  }
}

TEST(StopSignalTest, RestoresSignalHandlers) {
  EXPECT_EXIT(
      {
        signal(SIGTERM, SIG_DFL);  // an earlier test of this process may have ignored it
        { const StopSignal stop; }
        raise(SIGTERM);
        _exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace ranklog::trainer
