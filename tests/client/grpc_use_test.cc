#include "client/base/grpc_use.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <thread>

#include "client/base/grpc_poller.h"
#include "client/base/marked_threads.h"
#include "tests/support/absent.h"

namespace ranklog::internal {
namespace {

using std::chrono::milliseconds;

void UseGrpc() {
  pthread_setname_np(pthread_self(), "ranklog");  // as the sender
  WillUseGrpc();
  grpc_init();
  grpc_shutdown();
}

// Closes all descriptors, and opens other files with their numbers.
void ReuseDescriptors() {
  close_range(3, ~0U, 0);
  while (open("/dev/null", O_RDONLY) < 50) {
  }
}

// Returns MayUseGrpc() in a child that is forked now, and first does `act`.
bool ChildMayUseGrpc(void (*act)() = [] {}) {
  const pid_t child = fork();
  if (child == 0) {
    BeginGrpcInChild();
    act();
    _exit(MayUseGrpc() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A thread that is marked itself, because a marked thread started it, as gRPC does. It ends after
// End().
class MarkedThread {
 public:
  MarkedThread() {
    const MarksNewThreads marks;
    outer_ = std::thread([this] { inner_ = std::thread([this] { end_.wait(); }); });
  }
  ~MarkedThread() {
    outer_.join();
    inner_.join();
  }
  void End() { end_.count_down(); }
  bool ended() const { return end_.try_wait(); }

 private:
  std::latch end_{1};
  std::thread outer_, inner_;
};

// Each test is a process of its own, in which only we use gRPC.
[[noreturn]] void EndTest() { _exit(::testing::Test::HasFailure() ? 1 : 0); }

class GrpcUseTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(GrpcUseTest, ForkWaitsForMarkedThreads) {
  const auto test = [] {
    UseGrpc();
    MarkedThread thread;
    std::thread later([&] {
      std::this_thread::sleep_for(milliseconds(200));
      thread.End();
    });
    PrepareGrpcForFork(/*closed=*/true, std::chrono::minutes(1));
    EXPECT_TRUE(thread.ended());
    EXPECT_TRUE(ChildMayUseGrpc());
    later.join();
    EndTest();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

TEST_F(GrpcUseTest, ForkDoesNotWaitForOtherThreads) {
  const auto test = [] {
    UseGrpc();
    std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
    // Its thread in glibc blocks nearly the same signals as a thread of gRPC.
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = [](sigval) {};
    timer_t timer;
    EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    const auto start = std::chrono::steady_clock::now();
    PrepareGrpcForFork(/*closed=*/true, std::chrono::hours(1));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
    EXPECT_TRUE(ChildMayUseGrpc());
    EndTest();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

TEST_F(GrpcUseTest, ChildWithoutGrpcsDescriptorsMayNotUseIt) {
  SKIP_WITHOUT(GrpcLeavesPoller(), "a gRPC that leaves its epoll set open, such as 1.51");
  const auto test = [] {
    UseGrpc();
    PrepareGrpcForFork(/*closed=*/true, std::chrono::minutes(1));
    EXPECT_TRUE(ChildMayUseGrpc());
    EXPECT_FALSE(ChildMayUseGrpc([] { close_range(3, ~0U, 0); }));
    ReuseDescriptors();
    PrepareGrpcForFork(/*closed=*/true, std::chrono::minutes(1));
    EXPECT_FALSE(ChildMayUseGrpc());
    EndTest();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

TEST_F(GrpcUseTest, MissingEpollSetForbidsGrpcInChild) {
  SKIP_WITHOUT(GrpcLeavesPoller(), "a gRPC that leaves its epoll set open, such as 1.51");
  const auto test = [] {
    UseGrpc();
    ReuseDescriptors();
    PrepareGrpcForFork(/*closed=*/true, std::chrono::minutes(1));
    EXPECT_FALSE(ChildMayUseGrpc());
    EndTest();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

TEST_F(GrpcUseTest, ChildOfProcessWithGrpcThreadMayNotUseIt) {
  const auto test = [] {
    UseGrpc();
    MarkedThread thread;
    PrepareGrpcForFork(/*closed=*/true, milliseconds(100));
    EXPECT_FALSE(ChildMayUseGrpc());
    thread.End();
    PrepareGrpcForFork(/*closed=*/true, std::chrono::minutes(1));
    EXPECT_TRUE(ChildMayUseGrpc());
    PrepareGrpcForFork(/*closed=*/false);
    EXPECT_FALSE(ChildMayUseGrpc());
    EXPECT_TRUE(MayUseGrpc());
    // The threads are missing in a grandchild too, and the locks that they held are not free.
    BeginGrpcInChild();
    PrepareGrpcForFork(/*closed=*/true);
    EXPECT_FALSE(ChildMayUseGrpc());
    EndTest();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ranklog::internal
