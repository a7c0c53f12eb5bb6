#include "client/base/marked_threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace ranklog::internal {
namespace {

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }

// The mark of a thread is its signal mask, which new threads inherit: all signals but SIGTRAP, which
// no process gets from outside. Some signals cannot be blocked; glibc keeps 32 and 33 for itself.
constexpr uint64_t kUnblockable = Bit(SIGKILL) | Bit(SIGSTOP) | Bit(32) | Bit(33);
constexpr uint64_t kMark = ~(kUnblockable | Bit(SIGTRAP));

// The names of gRPC 1.51's threads, as the kernel shortens them. At first a thread has that of the
// sender, which starts it.
constexpr char kName[] = "Name:\t";
constexpr const char* kNames[] = {"ranklog\n",         "event_engine\n",    "timer_manager\n",
                                  "default-executo\n", "resolver-execut\n", "grpc_"};

bool StartsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Of one thread. `number`: in /proc/self/task.
MarkedThreads Examine(int tasks, const char* number) {
  char text[8192];
  const int dir = openat(tasks, number, O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int fd = dir < 0 ? -1 : openat(dir, "status", O_RDONLY | O_CLOEXEC);
  int error = errno;
  if (dir >= 0) close(dir);
  ssize_t size = -1;
  if (fd >= 0) {
    size = read(fd, text, sizeof text - 1);
    error = errno;
    close(fd);
  }
  if (size <= 0) {
    return error == ENOENT || error == ESRCH ? MarkedThreads::kUnsure : MarkedThreads::kUnknown;
  }
  text[size] = '\0';
  if (strstr(text, "\nThreads:\t0\n") != nullptr) return MarkedThreads::kSome;  // it is ending
  const char* const line = strstr(text, "\nSigBlk:");
  if (line == nullptr) return MarkedThreads::kUnknown;
  const uint64_t blocked = strtoull(line + strlen("\nSigBlk:"), nullptr, 16);
  // glibc blocks its own signals while a thread starts another, starts itself, or ends. Other
  // threads may block them always, such as that of a timer with SIGEV_THREAD, or those of io_uring.
  const bool changes = (blocked & (Bit(32) | Bit(33))) != 0 && StartsWith(text, kName) &&
                       std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) {
                         return StartsWith(text + strlen(kName), name);
                       });
  return changes || (blocked & ~kUnblockable) == kMark ? MarkedThreads::kSome
                                                       : MarkedThreads::kNone;
}

}  // namespace

MarksNewThreads::MarksNewThreads() {
  sigset_t mark;
  sigfillset(&mark);
  sigdelset(&mark, SIGTRAP);
  pthread_sigmask(SIG_SETMASK, &mark, &before_);
}

MarksNewThreads::~MarksNewThreads() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

MarkedThreads FindMarkedThreads() {
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return MarkedThreads::kUnknown;
  MarkedThreads found = MarkedThreads::kNone;
  while (const dirent* const entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const MarkedThreads one = Examine(dirfd(tasks), entry->d_name);
    if (one == MarkedThreads::kSome || one == MarkedThreads::kUnknown) {
      closedir(tasks);
      return one;
    }
    if (one == MarkedThreads::kUnsure) found = one;
  }
  closedir(tasks);
  return found;
}

}  // namespace ranklog::internal
