#include "client/base/grpc_use.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <thread>

#include "client/base/grpc_poller.h"

namespace ranklog::internal {
namespace {

constexpr int kMostUnsure = 20;
constexpr std::chrono::milliseconds kSharedPatience{20};

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }

// The mark of a thread is its signal mask, which new threads inherit: all signals but SIGTRAP, which
// no process gets from outside. Some signals cannot be blocked; glibc keeps 32 and 33 for itself.
constexpr uint64_t kUnblockable = Bit(SIGKILL) | Bit(SIGSTOP) | Bit(32) | Bit(33);
constexpr uint64_t kMark = ~(kUnblockable | Bit(SIGTRAP));

enum class GrpcUse { kNone, kOurs, kShared };
std::atomic<GrpcUse> grpc_use = GrpcUse::kNone;
std::atomic<bool> threads_may_run = false;  // of gRPC, for us
// These change before a fork, or in a child that has one thread.
bool down_at_fork = true;
bool may_use_grpc = true;
bool is_new_child = false;  // it may have closed gRPC's descriptors
std::optional<GrpcPoller> poller;
std::atomic<bool> may_have_poller = true;  // look for it at the next fork

enum class Threads {
  kNone,  // no marked thread runs
  kSome,  // one runs, or may soon have the mark
  // None was found, but a thread has ended meanwhile. It may have started another, and the kernel
  // may have ended the list there.
  kUnsure,
  kUnknown,  // /proc cannot be read
};

// The names of gRPC 1.51's threads, as the kernel shortens them. At first a thread has that of the
// sender, which starts it.
constexpr char kName[] = "Name:\t";
constexpr const char* kNames[] = {"ranklog\n",         "event_engine\n",    "timer_manager\n",
                                  "default-executo\n", "resolver-execut\n", "grpc_"};

bool StartsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Of one thread. `number`: in /proc/self/task.
Threads Examine(int tasks, const char* number) {
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
  if (size <= 0) return error == ENOENT || error == ESRCH ? Threads::kUnsure : Threads::kUnknown;
  text[size] = '\0';
  if (strstr(text, "\nThreads:\t0\n") != nullptr) return Threads::kSome;  // it is ending
  const char* const line = strstr(text, "\nSigBlk:");
  if (line == nullptr) return Threads::kUnknown;
  const uint64_t blocked = strtoull(line + strlen("\nSigBlk:"), nullptr, 16);
  // glibc blocks its own signals while a thread starts another, starts itself, or ends. Other
  // threads may block them always, such as that of a timer with SIGEV_THREAD, or those of io_uring.
  const bool changes = (blocked & (Bit(32) | Bit(33))) != 0 && StartsWith(text, kName) &&
                       std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) {
                         return StartsWith(text + strlen(kName), name);
                       });
  return changes || (blocked & ~kUnblockable) == kMark ? Threads::kSome : Threads::kNone;
}

// Of all threads.
Threads Examine() {
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return Threads::kUnknown;
  Threads found = Threads::kNone;
  while (const dirent* const entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const Threads one = Examine(dirfd(tasks), entry->d_name);
    if (one == Threads::kSome || one == Threads::kUnknown) {
      closedir(tasks);
      return one;
    }
    if (one == Threads::kUnsure) found = one;
  }
  closedir(tasks);
  return found;
}

// False: gRPC is not down after `patience`, or that cannot be known.
bool AwaitGrpcEnd(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  int unsure = 0;  // in a row
  while (true) {
    const bool up = grpc_is_initialized() != 0;
    const Threads threads = up || !threads_may_run ? Threads::kNone : Examine();
    if (threads == Threads::kUnknown) return false;
    unsure = threads == Threads::kUnsure ? unsure + 1 : 0;
    // The program may start and end threads all the time.
    const bool none = threads == Threads::kNone || unsure == kMostUnsure;
    if (!up && none) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      if (up) grpc_use = GrpcUse::kShared;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  threads_may_run = false;
  return true;
}

// Whether gRPC is down.
bool IsDown(std::chrono::milliseconds patience) {
  switch (grpc_use.load()) {
    case GrpcUse::kNone:
      return grpc_is_initialized() == 0;
    case GrpcUse::kOurs:
      return AwaitGrpcEnd(patience);
    case GrpcUse::kShared:
      if (!AwaitGrpcEnd(std::min(patience, kSharedPatience))) return false;
      grpc_use = GrpcUse::kOurs;
      return true;
  }
  return false;
}

}  // namespace

void WillUseGrpc() {
  if (SilenceOwnGrpc != nullptr) SilenceOwnGrpc();
  if (grpc_is_initialized() == 0) {
    grpc_use = GrpcUse::kOurs;
  } else if (grpc_use.load() == GrpcUse::kNone) {
    grpc_use = GrpcUse::kShared;
  }
  threads_may_run = true;
  may_have_poller = true;
}

MarksNewThreads::MarksNewThreads() {
  sigset_t mark;
  sigfillset(&mark);
  sigdelset(&mark, SIGTRAP);
  pthread_sigmask(SIG_SETMASK, &mark, &before_);
}

MarksNewThreads::~MarksNewThreads() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void PrepareGrpcForFork(bool closed, std::chrono::milliseconds patience) {
  down_at_fork = may_use_grpc && closed && IsDown(patience);
  if (!down_at_fork) return;
  if (poller) {
    down_at_fork = IsOpen(*poller);
  } else if (may_have_poller) {
    poller = FindGrpcPoller();
    const bool used = grpc_use.load() != GrpcUse::kNone;
    if (used && !poller && GrpcLeavesPoller()) down_at_fork = false;
    may_have_poller = !used || !down_at_fork;
  }
}

void BeginGrpcInChild() {
  may_use_grpc = down_at_fork && (!poller || ReplaceGrpcPoller(*poller));
  is_new_child = true;
}

bool MayUseGrpc() {
  if (is_new_child && may_use_grpc && poller) may_use_grpc = IsOpen(*poller);
  is_new_child = false;
  return may_use_grpc;
}

}  // namespace ranklog::internal
