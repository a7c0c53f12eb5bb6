// A crash of the daemon leaves no core file, since it would contain the trackers' keys.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

// Whether a ranklogd with `flag` leaves a core file when it aborts.
bool LeavesACore(const std::string& flag) {
  TempDir dir;
  const std::string state = dir.File("state"), socket = dir.File("s");
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &any);
    if (chdir(dir.path().c_str()) != 0) _exit(1);
    execl(RANKLOGD, "ranklogd", "--state-dir", state.c_str(), "--listen",
          ("unix:" + socket).c_str(), flag.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_TRUE(WaitFor([&] { return std::filesystem::exists(socket); }));
  kill(pid, SIGABRT);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  return WCOREDUMP(status);
}

TEST(CoreFileTest, CoreFileOnlyOnRequest) {
  SKIP_WITHOUT(LeavesACore("--core-dumps"), "core files of any program (kernel.core_pattern)");
  EXPECT_FALSE(LeavesACore("--log-level=warn"));
}

}  // namespace
}  // namespace ranklog::testing
