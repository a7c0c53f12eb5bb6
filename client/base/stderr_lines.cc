#include "client/base/stderr_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ranklog::internal {
namespace {

constexpr size_t kMaxLine = 2000;  // below PIPE_BUF: a pipe takes all of the line, or none
constexpr size_t kMaxWaiting = 32;

// If the program closed its stderr, another file may have the number 2, even one of ours. Our files
// are close-on-exec, and stderr is not.
bool HasStderr() {
  const int flags = fcntl(STDERR_FILENO, F_GETFD);
  if (flags < 0 || (flags & FD_CLOEXEC) != 0) return false;
  return (fcntl(STDERR_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

bool HasColours() {
  const char* const terminal = getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && getenv("NO_COLOR") == nullptr && terminal != nullptr &&
         strcmp(terminal, "dumb") != 0;
}

std::string Line(Severity severity, const std::string& text) {
  std::string line = "ranklog: ";
  line.append(text, 0, kMaxLine - 32);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  if (severity != Severity::kInfo && HasColours()) {
    line = (severity == Severity::kError ? "\033[31m" : "\033[33m") + line + "\033[0m";
  }
  return line + "\n";
}

ssize_t WriteIfReady(int fd, const std::string& line) {
  pollfd ready = {.fd = fd, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(fd, line.data(), line.size());
}

// O_NONBLOCK belongs to the open file, which other processes share with us, so a pipe or a terminal
// is opened again. A check for room before the write is not enough: another rank may fill the pipe
// between the two.
ssize_t WriteToPipe(const std::string& line) {
  const int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return WriteIfReady(STDERR_FILENO, line);  // it belongs to another user
  const ssize_t written = write(fd, line.data(), line.size());
  const int error = errno;
  close(fd);
  errno = error;
  return written;
}

// False: there is no room now.
bool Write(const std::string& line) {
  struct stat kind = {};
  if (!HasStderr() || fstat(STDERR_FILENO, &kind) != 0) return true;
  ssize_t written;
  if (S_ISSOCK(kind.st_mode)) {
    written = send(STDERR_FILENO, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } else if (S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode)) {
    written = WriteToPipe(line);
  } else {
    written = write(STDERR_FILENO, line.data(), line.size());
  }
  return written >= 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace

void StderrLines::Put(Severity severity, const std::string& text) {
  if (waiting_.size() >= kMaxWaiting) waiting_.pop_front();
  waiting_.push_back(Line(severity, text));
  Flush();
}

void StderrLines::Flush() {
  while (!waiting_.empty() && Write(waiting_.front())) waiting_.pop_front();
}

}  // namespace ranklog::internal
