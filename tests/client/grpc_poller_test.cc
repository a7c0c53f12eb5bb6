#include "client/base/grpc_poller.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "tests/support/absent.h"

namespace ranklog::internal {
namespace {

class GrpcPollerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc_init();
    grpc_shutdown();
    poller_ = FindGrpcPoller();
    if (GrpcLeavesPoller()) {
      ASSERT_TRUE(poller_.has_value());
    }
    SKIP_WITHOUT(poller_.has_value(), "a gRPC that leaves its epoll set open, such as 1.51");
  }

  // The exit code of a forked child that does this.
  static int InChild(const std::function<bool()>& act) {
    const pid_t child = fork();
    if (child == 0) _exit(act() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Whether the set has an event of the wakeup.
  bool Wakes() const {
    epoll_event event = {};
    return epoll_wait(poller_->epoll_fd, &event, 1, 0) == 1 && event.data.u64 == poller_->data;
  }

  std::optional<GrpcPoller> poller_;
};

TEST_F(GrpcPollerTest, ChildsSetHasOnlyItsOwnEvents) {
  while (Wakes()) {
  }
  EXPECT_EQ(InChild([&] {
              eventfd_write(poller_->wakeup_fd, 1);  // the parent's
              const bool replaced = ReplaceGrpcPoller(*poller_);
              const bool quiet = !Wakes();
              eventfd_write(poller_->wakeup_fd, 1);
              return replaced && quiet && Wakes() && !Wakes();
            }),
            0);
  EXPECT_TRUE(Wakes());
  EXPECT_FALSE(Wakes());  // not the child's
}

}  // namespace
}  // namespace ranklog::internal
