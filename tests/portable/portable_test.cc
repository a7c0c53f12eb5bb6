// The self-contained libranklog.so in trainers that have their own Protobuf, gRPC, zlib or
// allocator, and that fork.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "client/portable/clock_wait.h"
#include "ranklog/version.h"
#include "tests/client/fake_ingest.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

class PortableTest : public ::testing::Test {
 protected:
  PortableTest() { daemon_.Start(); }

  // Runs a program to its end, and checks the number of its rows.
  void ExpectRows(const std::vector<std::string>& program, size_t rows) {
    const Finished finished = RunToEnd(program, options_);
    EXPECT_EQ(finished.code, 0) << finished.output;
    EXPECT_EQ(daemon_.row_count(), rows);
    EXPECT_EQ(daemon_.error(), "");
  }

  TempDir dir_;
  FakeIngest daemon_{dir_.File("sock")};
  ChildProcess::Options options_{{{"RANKLOG_ADDRESS", "unix:" + dir_.File("sock")},
                                  {"RANKLOG_SPOOL_DIR", dir_.path()},
                                  {"RANKLOG_START_DAEMON", "0"},
                                  {"RANKLOG_FLUSH_INTERVAL_MS", "10"},
                                  {"OMP_NUM_THREADS", "1"}},
                                 {},
                                 ""};
};

TEST_F(PortableTest, ProgramSymbolsDoNotInterposeLibrary) {  // S46
  ExpectRows({INTERPOSING_PROGRAM}, 10);
}

TEST_F(PortableTest, ProgramsOperatorNewHandlesOnlyItsMemory) {  // S46
  ExpectRows({ALLOCATING_PROGRAM}, 1000);
}

// gRPC once wrote to a training's stderr that it waits for its threads.
TEST_F(PortableTest, GrpcWritesNothing) {
  options_.environment["GRPC_VERBOSITY"] = "DEBUG";
  options_.environment["GRPC_TRACE"] = "all";
  options_.environment["RANKLOG_QUIET"] = "1";
  EXPECT_EQ(RunToEnd({ALLOCATING_PROGRAM}, options_).output, "");
  EXPECT_EQ(daemon_.row_count(), 1000u);
}

#ifdef RANKLOGD
// The real daemon, which reads the rings of the children.
TEST_F(PortableTest, ForkedChildrenLogBesideProgramGrpc) {  // S46
  const std::string socket = dir_.File("ranklogd.sock");
  const ChildProcess daemon({RANKLOGD, "--listen", "unix:" + socket, "--state-dir",
                             dir_.File("state"), "--spool-dir", dir_.path()});
  ASSERT_TRUE(WaitFor([&] { return access(socket.c_str(), F_OK) == 0; }));
  options_.environment["RANKLOG_ADDRESS"] = "unix:" + socket;
  options_.environment["RANKLOG_DESTINATIONS"] = "local";
  const Finished finished = RunToEnd({FORKING_PROGRAM, dir_.File("own"), "20"}, options_);
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("20 of 20 children durable"));
}
#endif

TEST_F(PortableTest, CanBeLoadedLate) {
  // glibc reserves thread-local storage for libraries that are loaded late; this sets the minimum.
  options_.environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=0";
  ExpectRows({LATE_PROGRAM, LATE_PLUGIN}, 90);
}

#ifdef LIBTORCH_PROGRAM
TEST_F(PortableTest, WorksBesideLibTorch) {  // S46
  ExpectRows({LIBTORCH_PROGRAM}, 50);
}
#endif

TEST(VersionTest, NamesTheSourcesOfStaticParts) {
  for (const char* package : {"abseil", "c-ares", "grpc", "protobuf", "zlib"}) {
    EXPECT_THAT(std::string(Version()), HasSubstr(std::string(" ") + package + " "));
  }
}

// The replacement of pthread_cond_clockwait() before glibc 2.30.
class ClockWaitTest : public ::testing::Test {
 protected:
  struct Woken {
    int result;
    int64_t left;  // nanoseconds until the deadline
  };

  // Waits for at most `wait`. If `signal`, another thread signals meanwhile.
  Woken Wait(std::chrono::seconds wait, bool signal) {
    timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += wait.count();
    pthread_mutex_lock(&mutex_);
    std::thread signaller([&] {
      pthread_mutex_lock(&mutex_);  // succeeds once the wait has begun
      if (signal) pthread_cond_signal(&condition_);
      pthread_mutex_unlock(&mutex_);
    });
    const int result = internal::WaitForAWhile(&condition_, &mutex_, CLOCK_MONOTONIC, deadline);
    const int64_t left =
        internal::Nanoseconds(deadline) - internal::NanosecondsNow(CLOCK_MONOTONIC);
    pthread_mutex_unlock(&mutex_);
    signaller.join();
    return {result, left};
  }

  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

TEST_F(ClockWaitTest, TimesOutAtTheDeadlineOnly) {
  const Woken woken = Wait(std::chrono::seconds(0), /*signal=*/false);
  EXPECT_EQ(woken.result, ETIMEDOUT);
  EXPECT_LE(woken.left, 0);
}

TEST_F(ClockWaitTest, WakesEarlyWithoutASignal) {
  const Woken woken = Wait(std::chrono::seconds(100), /*signal=*/false);
  EXPECT_EQ(woken.result, 0);
  EXPECT_GT(woken.left, 0);
}

TEST_F(ClockWaitTest, WakesWhenSignalled) {
  const Woken woken = Wait(std::chrono::seconds(100), /*signal=*/true);
  EXPECT_EQ(woken.result, 0);
  EXPECT_GT(woken.left, 0);
}

}  // namespace
}  // namespace ranklog::testing
