#include "service/pipeline/delivery/crash_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "service/storage/database/store_file.h"
#include "service/storage/store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

class CrashMarksTest : public ::testing::Test {
 protected:
  CrashMarksTest() { EXPECT_OK(storage::Store::Open(dir_.path(), {})); }

  // Runs `what` in a thread of a child process while run 7 is being delivered. Returns the child's
  // status as from waitpid().
  int Process(const std::function<void()>& what) {
    const pid_t pid = fork();
    if (pid != 0) {
      int status = 0;
      waitpid(pid, &status, 0);
      return status;
    }
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    if (!TakeCrashMarks(dir_.path()).ok()) _exit(2);
    std::thread([&] {
      const CrashStack stack;
      const DeliveryInProgress under_way(/*worker=*/3, /*run=*/7, "wandb");
      what();
    }).join();
    _exit(0);
  }

  std::vector<CrashMark> Marks() {
    const auto marks = TakeCrashMarks(dir_.path());
    EXPECT_OK(marks);
    return *marks;
  }

  static auto MarkOf(int signal) {
    return AllOf(Field(&CrashMark::run, 7), Field(&CrashMark::kind, "wandb"),
                 Field(&CrashMark::signal, signal), Field(&CrashMark::version, Not(IsEmpty())));
  }

  const testing::TempDir dir_;
};

// Sanitizers have their own handlers, which end the process differently.
#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)

void WriteWhereNothingIs() {
  void* const nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<volatile char*>(nothing) = 1;
}

// NOLINTNEXTLINE(misc-no-recursion): that is what it is for
int Overflow(int depth) {
  volatile char room[1024] = {};
  room[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : Overflow(depth + 1) + room[0];
}

TEST_F(CrashMarksTest, CrashIsMarkedAndKeepsSignal) {
  const std::pair<int, std::function<void()>> crashes[] = {
      {SIGSEGV, [] { WriteWhereNothingIs(); }},
      {SIGSEGV, [] { Overflow(0); }},
      {SIGABRT, [] { abort(); }},
      {SIGABRT, [] { throw std::string("nobody catches this"); }},
      {SIGILL, [] { __builtin_trap(); }},
      {SIGFPE, [] { raise(SIGFPE); }},
      {SIGBUS, [] { raise(SIGBUS); }},
  };
  for (const auto& [signal, crash] : crashes) {
    const int status = Process(crash);
    EXPECT_TRUE(WIFSIGNALED(status)) << signal;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_THAT(Marks(), ElementsAre(MarkOf(signal)));
    EXPECT_THAT(Marks(), IsEmpty()) << "a mark is read once";
  }
}

#endif

TEST_F(CrashMarksTest, EndFromOutsideIsNotMarked) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGABRT, SIGTERM}) {
    Process([signal] {
      const pid_t parent = getpid();
      if (const pid_t other = fork(); other == 0) {
        kill(parent, signal);
        _exit(0);
      }
      while (true) pause();
    });
    EXPECT_THAT(Marks(), IsEmpty()) << signal;
  }
}

TEST_F(CrashMarksTest, ThreadThatDeliversNothingMarksNothing) {
  Process([] { std::thread([] { raise(SIGSEGV); }).join(); });
  EXPECT_THAT(Marks(), IsEmpty());
}

TEST_F(CrashMarksTest, MarkOfAnotherStoreIsIgnored) {
  Process([] { raise(SIGSEGV); });
  std::filesystem::copy(dir_.File(storage::kStoreFile), dir_.File("other"));
  std::filesystem::rename(dir_.File("other"), dir_.File(storage::kStoreFile));
  EXPECT_THAT(Marks(), IsEmpty());
}

}  // namespace
}  // namespace ranklog::pipeline
