// Lines to a stderr that is full, broken, closed or another file. Each case is a child process.

#include "client/base/stderr_lines.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "tests/support/file_content.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

// Writes 200 lines of 1000 bytes like the sender's thread, with SIGPIPE blocked and stderr prepared
// by `prepare`. Returns 0 if it finishes. It is killed after 10 s.
int PutLines(const std::function<void()>& prepare, int lines = 200) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGALRM);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    prepare();
    StderrLines out;
    for (int i = 0; i < lines; ++i) out.Put(Severity::kWarning, std::string(1000, 'x'));
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(StderrLinesTest, FullPipeDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(PutLines([&] { dup2(ends[1], 2); }), 0);
  // O_NONBLOCK would affect every process that has the pipe.
  EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(StderrLinesTest, BrokenPipeKillsNoProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(PutLines([&] {
              dup2(ends[1], 2);
              close(ends[0]);
            }),
            0);
  close(ends[0]);
  close(ends[1]);
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  EXPECT_EQ(PutLines([&] { dup2(sockets[1], 2); }), 0);  // full
  EXPECT_EQ(PutLines([&] {
              dup2(sockets[1], 2);
              close(sockets[0]);
            }),
            0);
  close(sockets[0]);
  close(sockets[1]);
}

TEST(StderrLinesTest, ClosedStderrWritesNoOtherFile) {
  testing::TempDir dir;
  const std::string path = dir.File("ring");
  EXPECT_EQ(PutLines([&] {
              close(2);
              open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);  // gets descriptor 2
            }),
            0);
  EXPECT_EQ(testing::FileContent(path), "");
  EXPECT_EQ(PutLines([] { close(2); }), 0);
}

TEST(StderrLinesTest, FileReceivesAllLines) {
  testing::TempDir dir;
  const std::string path = dir.File("log");
  EXPECT_EQ(PutLines([&] { dup2(open(path.c_str(), O_WRONLY | O_CREAT, 0600), 2); }, 2), 0);
  const std::string line = "ranklog: " + std::string(1000, 'x') + "\n";
  EXPECT_EQ(testing::FileContent(path), line + line);
}

}  // namespace
}  // namespace ranklog::internal
