#include "service/ingest/ring/process_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/kernel.h"

namespace ranklog::ingest {
namespace {

// A child that runs `body`. It is reaped only when the test asks for it.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ == 0) {
      const rlimit no_core = {0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      body();
      _exit(0);
    }
    pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    Reap();
  }

  void WaitUntilEnded() const {
    pollfd event{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    while (poll(&event, 1, -1) < 0) {
    }
  }
  int Reap() {
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = 0;
    return status_;
  }
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }

 private:
  pid_t pid_;
  int status_ = 0;
  UniqueFd pidfd_;
};

TEST(WaitStatusTest, UnreapedProcessHasItsWaitStatus) {
  const std::function<void()> ends[] = {[] { _exit(0); }, [] { _exit(3); }, [] { raise(SIGKILL); },
                                        [] { raise(SIGSEGV); }, [] { abort(); }};
  for (const auto& end : ends) {
    Child child(end);
    child.WaitUntilEnded();
    const absl::optional<int> status = WaitStatusOf(child.pidfd(), child.pid());
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(*status, child.Reap());
  }
}

TEST(WaitStatusTest, ReapedProcessStatusMayBeUnknown) {
  Child child([] { raise(SIGTERM); });
  child.WaitUntilEnded();
  const pid_t pid = child.pid();
  const int truth = child.Reap();
  const absl::optional<int> status = WaitStatusOf(child.pidfd(), pid);
  EXPECT_EQ(status.has_value(), testing::PidfdReportsExitStatus());
  EXPECT_EQ(status.value_or(truth), truth);
}

TEST(WaitStatusTest, RunningProcessHasNoStatus) {
  Child child([] { pause(); });
  EXPECT_FALSE(WaitStatusOf(child.pidfd(), child.pid()).has_value());
}

TEST(WaitStatusTest, ReusedPidNeverGivesWrongStatus) {
  Child ended([] { _exit(3); });
  ended.WaitUntilEnded();
  Child reaped([] { _exit(4); });
  reaped.WaitUntilEnded();
  reaped.Reap();
  const absl::optional<int> status = WaitStatusOf(reaped.pidfd(), ended.pid());
  EXPECT_EQ(status.has_value(), testing::PidfdReportsExitStatus());
  EXPECT_EQ(status.value_or(4 << 8), 4 << 8);
}

// Its file in /proc may disappear while it is read. That once ended the daemon within 15 such
// children.
TEST(WaitStatusTest, ConcurrentReapNeverGivesWrongStatus) {
  for (int i = 0; i < 100; ++i) {
    Child child([] { _exit(3); });
    const pid_t pid = child.pid();
    std::atomic<bool> reaped = false;
    std::thread parent([&] {
      child.WaitUntilEnded();
      child.Reap();
      reaped = true;
    });
    while (!reaped) EXPECT_EQ(WaitStatusOf(child.pidfd(), pid).value_or(3 << 8), 3 << 8);
    parent.join();
    EXPECT_EQ(WaitStatusOf(child.pidfd(), pid).has_value(), testing::PidfdReportsExitStatus());
  }
}

TEST(WaitStatusTest, DescriptionNamesSignalOrCode) {
  EXPECT_EQ(DescribeWaitStatus(3 << 8), "exited with code 3");
  EXPECT_EQ(DescribeWaitStatus(SIGKILL), "was killed by signal 9 (Killed)");
  EXPECT_EQ(DescribeWaitStatus(SIGSEGV | 0x80), "was killed by signal 11 (Segmentation fault)");
}

TEST(OomKillsTest, ReadsBothKindsOfCgroup) {
  EXPECT_EQ(OomKills::Parse("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), 2);
  EXPECT_EQ(OomKills::Parse("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), 7);
  EXPECT_EQ(OomKills::Parse(""), 0);
  EXPECT_EQ(OomKills::FileOf("0::/user.slice/job 7\n"),
            "/sys/fs/cgroup/user.slice/job 7/memory.events");
  EXPECT_EQ(OomKills::FileOf("5:cpu,memory:/slurm/a:b\n0::/\n"),
            "/sys/fs/cgroup/memory/slurm/a:b/memory.oom_control");
  EXPECT_EQ(OomKills::FileOf("1:name=systemd:/\n"), "");
  EXPECT_EQ(OomKills::FileOf(""), "") << "the process has ended";
}

}  // namespace
}  // namespace ranklog::ingest
