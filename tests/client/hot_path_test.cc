// What Log() promises to the training step: no system call, no page fault, and no allocation once a
// shape is known.

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "ranklog/ranklog.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace {

thread_local long allocations = 0;

void* Count(size_t size) {
  ++allocations;
  void* const memory = malloc(size);
  if (memory == nullptr) abort();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Count(size); }
void* operator new[](size_t size) { return Count(size); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }

namespace ranklog::testing {
namespace {

class HotPathTest : public ::testing::Test {
 protected:
  HotPathTest() {
    Settings settings;
    settings.address = "unix:" + dir_.File("sock");
    settings.spool_dir = dir_.path();
    settings.spool_bytes = 64 << 20;
    settings.start_daemon = false;
    run_ = Init(settings);
    loss_ = run_.MetricKey("loss");
    row_ = run_.Row({"loss", "lr", "tokens"});
  }

  // Logs a row of every kind, in changing order, so that shape predictions sometimes fail.
  bool LogAll(int i) {
    const double values[] = {0.5, 1, 2};
    const HandleValue handles[] = {{loss_, 0.25}};
    bool all = run_.Log({{"train/loss", 0.5}, {"train/learning_rate", 1e-3}, {"step", i}});
    if (i % 3 == 0) all = run_.Log({{"val/loss", 0.5}}) && all;
    if (i % 7 == 0) {
      all = run_.Log({{"val/loss", 0.5},
                      {"note", "a text of some length"},
                      {"done", i > 100},
                      {"tokens", (int64_t{1} << 60) + i}}) &&
            all;
    }
    all = run_.Log(row_, values) && all;
    if (i % 5 == 0) all = run_.Log(handles) && all;
    run_.Log({{"late", 1}}, 0);  // refused
    return all;
  }

  void Learn() {
    for (int i = 0; i < 106; ++i) ASSERT_TRUE(LogAll(i));
  }

  TempDir dir_{"/dev/shm"};  // on a disk, pages that the kernel wrote back fault again
  class Run run_;
  MetricHandle loss_;
  RowHandle row_;
};

TEST_F(HotPathTest, KnownShapesAllocateNothing) {
  Learn();
  const long before = allocations;
  bool all = true;
  for (int i = 0; i < 10000; ++i) all = LogAll(i) && all;
  EXPECT_EQ(allocations - before, 0);
  EXPECT_TRUE(all);
}

TEST_F(HotPathTest, CounterCountsAllocations) {
  const long before = allocations;
  EXPECT_TRUE(run_.Log({{"a new shape", 1}}));
  EXPECT_GT(allocations, before);
}

// Returns how many bytes of the ring this process has mapped to pages.
long TouchedBytes(const std::string& dir) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  while (std::getline(maps, line) && line.find(dir + "/ring-") == std::string::npos) {
  }
  while (std::getline(maps, line)) {
    if (line.rfind("Rss:", 0) == 0) return 1024 * std::stol(line.substr(4));
  }
  return 0;
}

TEST_F(HotPathTest, TouchedRingAvoidsPageFaults) {
  ASSERT_TRUE(WaitFor([this] { return TouchedBytes(dir_.path()) > 64 << 20; }));
  Learn();
  const auto faults = [] {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
  };
  const std::vector<double> values(100, 0.5);
  const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (int i = 0; i < 100; ++i) all.push_back("metric/" + std::to_string(i));
    return all;
  }();
  const RowHandle row = run_.Row(std::vector<std::string_view>(names.begin(), names.end()));
  ASSERT_TRUE(run_.Log(row, values));
  const long before = faults();
  long rows = 0;
  while (run_.Log(row, values)) ++rows;
  EXPECT_GT(rows, 70'000);            // the end of the ring was reached
  EXPECT_LT(faults() - before, 100);  // of 16384 pages
}

// Kills the process at any system call of this thread except the one that ends it.
void ForbidSystemCalls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(100);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(101);
}

int ExitOfChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(HotPathTest, MakesNoSystemCall) {
  const int status = ExitOfChild([this] {
    for (int i = 0; i < 106; ++i) LogAll(i);
    ForbidSystemCalls();
    bool all = true;
    for (int i = 0; i < 10000; ++i) all = LogAll(i) && all;
    _exit(all ? 0 : 1);
  });
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(HotPathTest, SystemCallKillsTheProcess) {
  const int status = ExitOfChild([] {
    ForbidSystemCalls();
    getppid();
  });
  EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
}  // namespace ranklog::testing
