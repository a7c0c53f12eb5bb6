#include "tests/support/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/time/clock.h"

namespace ranklog::testing {
namespace {

// Waits for at most `wait`, then returns what can be read from the terminal without blocking.
std::string ReadWhatIsThere(int terminal, absl::Duration wait) {
  std::string text;
  pollfd readable = {terminal, POLLIN, 0};
  while (poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(wait))) == 1 &&
         (readable.revents & POLLIN) != 0) {
    char bytes[4096];
    const ssize_t size = read(terminal, bytes, sizeof bytes);
    if (size <= 0) break;
    text.append(bytes, static_cast<size_t>(size));
    wait = absl::ZeroDuration();
  }
  return text;
}

}  // namespace

Finished RunOnTerminal(const std::vector<std::string>& args, const ChildProcess::Options& options,
                       const std::string& typed, absl::Duration timeout) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  char path[64];
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0 ||
      ptsname_r(terminal, path, sizeof path) != 0) {
    ADD_FAILURE() << "there is no pseudo terminal: errno " << errno;
    return {-1, ""};
  }
  // Keeps the terminal open, so that its remaining output can be read after the program has ended.
  const int side = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
  const winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(ioctl(side, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(write(terminal, typed.data(), typed.size()), static_cast<ssize_t>(typed.size()));
  // A shell connects it to the terminal, since the output of a ChildProcess is a file.
  std::vector<std::string> on_terminal = {"bash", "-c", "exec \"${@:2}\" < \"$1\" > \"$1\" 2>&1",
                                          "-", path};
  on_terminal.insert(on_terminal.end(), args.begin(), args.end());
  ChildProcess program(on_terminal, options);
  Finished finished = {-SIGKILL, ""};
  const absl::Time deadline = absl::Now() + timeout;
  absl::optional<int> code;
  while (!code.has_value() && absl::Now() < deadline) {
    finished.output += ReadWhatIsThere(terminal, absl::Milliseconds(20));
    code = program.Wait(absl::ZeroDuration());
  }
  finished.output += ReadWhatIsThere(terminal, absl::ZeroDuration());
  finished.code = code.value_or(-SIGKILL);
  close(side);
  close(terminal);
  return finished;
}

}  // namespace ranklog::testing
