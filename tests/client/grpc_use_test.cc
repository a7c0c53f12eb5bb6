#include "client/base/grpc_use.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace ranklog::internal {
namespace {

using std::chrono::milliseconds;

// Returns MayUseGrpc() in a child that is forked now.
bool ChildMayUseGrpc() {
  const pid_t child = fork();
  if (child == 0) {
    BeginGrpcInChild();
    _exit(MayUseGrpc() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A thread that is marked itself, because a marked thread started it, as gRPC does.
class MarkedThread {
 public:
  explicit MarkedThread(milliseconds lifetime) {
    const MarksNewThreads marks;
    outer_ = std::thread([this, lifetime] {
      inner_ = std::thread([this, lifetime] {
        std::this_thread::sleep_for(lifetime);
        ended_ = true;
      });
    });
  }
  ~MarkedThread() {
    outer_.join();
    inner_.join();
  }
  bool ended() const { return ended_; }

 private:
  std::atomic<bool> ended_ = false;
  std::thread outer_, inner_;
};

// Each test is a process of its own, in which only we use gRPC.
[[noreturn]] void End() { _exit(::testing::Test::HasFailure() ? 1 : 0); }

class GrpcUseTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(GrpcUseTest, ForkWaitsForMarkedThreads) {
  const auto test = [] {
    WillUseGrpc();
    const MarkedThread thread(milliseconds(200));
    PrepareGrpcForFork(/*closed=*/true);
    EXPECT_TRUE(thread.ended());
    EXPECT_TRUE(ChildMayUseGrpc());
    End();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

TEST_F(GrpcUseTest, ForkDoesNotWaitForOtherThreads) {
  const auto test = [] {
    WillUseGrpc();
    std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
    const auto start = std::chrono::steady_clock::now();
    PrepareGrpcForFork(/*closed=*/true);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(900));
    EXPECT_TRUE(ChildMayUseGrpc());
    End();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

TEST_F(GrpcUseTest, ChildOfProcessWithGrpcThreadMayNotUseIt) {
  const auto test = [] {
    WillUseGrpc();
    {
      const MarkedThread thread(milliseconds(2000));
      PrepareGrpcForFork(/*closed=*/true);
      EXPECT_FALSE(thread.ended());
      EXPECT_FALSE(ChildMayUseGrpc());
    }
    PrepareGrpcForFork(/*closed=*/true);
    EXPECT_TRUE(ChildMayUseGrpc());
    PrepareGrpcForFork(/*closed=*/false);
    EXPECT_FALSE(ChildMayUseGrpc());
    EXPECT_TRUE(MayUseGrpc());
    End();
  };
  EXPECT_EXIT(test(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ranklog::internal
