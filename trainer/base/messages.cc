#include "trainer/base/messages.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace ranklog::trainer {
namespace {

constexpr size_t kMostKept = 32;

// For a pipe or terminal of another user, which cannot be opened again. Another writer may fill the
// pipe between the two calls.
ssize_t WriteAfterPoll(const char* text, size_t size) {
  pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(STDERR_FILENO, text, std::min<size_t>(size, PIPE_BUF));
}

// O_NONBLOCK belongs to the open file, which this process shares with the other ranks and the
// shell. So a pipe or a terminal is opened again.
ssize_t WriteToNewFile(const char* text, size_t size) {
  const int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return WriteAfterPoll(text, size);
  const ssize_t written = write(fd, text, size);
  const int error = errno;
  close(fd);
  errno = error;
  return written;
}

// Returns the number of bytes that need no further write: the written ones, or all if stderr is
// broken. 0: no room now. Async-signal-safe.
size_t WriteWhatFits(const char* text, size_t size) {
  struct stat kind = {};
  if (fstat(STDERR_FILENO, &kind) != 0) return size;
  ssize_t written;
  if (S_ISSOCK(kind.st_mode)) {
    written = send(STDERR_FILENO, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  } else if (S_ISFIFO(kind.st_mode) || S_ISCHR(kind.st_mode)) {
    written = WriteToNewFile(text, size);
  } else {
    written = write(STDERR_FILENO, text, size);
  }
  if (written >= 0) return static_cast<size_t>(written);
  return errno == EAGAIN || errno == EINTR ? 0 : size;
}

class Messages {
 public:
  void Put(std::string text) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    if (kept_.size() >= kMostKept) kept_.pop_front();
    kept_.push_back(std::move(text));
    Flush();
  }
  void PutIfRoom(const std::string& text) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    if (Flush()) WriteWhatFits(text.data(), text.size());
  }
  bool TryAgain() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    return Flush();
  }

 private:
  // True: no message is kept any more.
  bool Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!kept_.empty()) {
      std::string& text = kept_.front();
      const size_t done = WriteWhatFits(text.data(), text.size());
      if (done == 0 && !text.empty()) return false;
      text.erase(0, done);
      if (text.empty()) kept_.pop_front();
    }
    return true;
  }

  absl::Mutex mutex_;  // a library's thread may report why it ends the process
  std::deque<std::string> kept_ ABSL_GUARDED_BY(mutex_);  // the first may be written in part
};

Messages& OfThisProcess() {
  static auto* const messages = new Messages;  // also for the destructors of statics
  return *messages;
}

}  // namespace

void WriteMessage(std::string text) {
  for (char& c : text) {
    if (absl::ascii_iscntrl(c) && c != '\n' && c != '\t') c = ' ';
  }
  // This process, or another rank of the job, may have left an unfinished line of progress there.
  if (isatty(STDERR_FILENO) == 1) text.insert(0, "\r\033[K");
  OfThisProcess().Put(std::move(text));
}

void WriteProgress(const std::string& text) { OfThisProcess().PutIfRoom(text); }

void AwaitMessages(absl::Duration patience) {
  const absl::Time end = absl::Now() + patience;
  while (!OfThisProcess().TryAgain() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(10));
}

void WriteFromHandler(const char* text, size_t size) { WriteWhatFits(text, size); }

}  // namespace ranklog::trainer
