#include "client/base/grpc_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "client/base/grpc_poller.h"

namespace ranklog::internal {
namespace {

constexpr std::chrono::milliseconds kGrpcEnd{1000};

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
std::optional<GrpcPoller> poller;            // of this process
std::optional<GrpcPoller> inherited_poller;  // of the parent; it must be replaced

// Whether a thread has the mark, or may soon have it. `thread`: its number in /proc/self/task. nullopt: it has ended.
std::optional<bool> IsMarked(int tasks, const char* thread) {
  char text[4096];
  const int dir = openat(tasks, thread, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return std::nullopt;
  const int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC);
  close(dir);
  if (fd < 0) return std::nullopt;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  if (strstr(text, "\nThreads:\t0\n") != nullptr) return true;  // it is ending, without its mask
  const char* const line = strstr(text, "\nSigBlk:");
  if (line == nullptr) return false;
  const uint64_t blocked = strtoull(line + strlen("\nSigBlk:"), nullptr, 16);
  // glibc blocks all 64 signals while a thread starts another, or starts itself.
  return (blocked & ~kUnblockable) == kMark || (blocked & Bit(33)) != 0;
}

// The marked threads that run. nullopt: none was found, but a thread has ended meanwhile, which may
// have started another. 0 if /proc cannot be read.
std::optional<int> CountMarkedThreads() {
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  int count = 0;
  bool all = true;
  while (const dirent* const entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    const std::optional<bool> marked = IsMarked(dirfd(tasks), entry->d_name);
    count += marked.value_or(false);
    all = all && marked.has_value();
  }
  closedir(tasks);
  if (count == 0 && !all) return std::nullopt;
  return count;
}

bool MarkedThreadRuns() {
  if (!threads_may_run) return false;
  std::optional<int> count = CountMarkedThreads();
  // Not more often, because the program may start and end threads all the time.
  for (int again = 0; again < 3 && !count; ++again) count = CountMarkedThreads();
  return count.value_or(0) > 0;
}

bool AwaitGrpcEnd() {
  const auto deadline = std::chrono::steady_clock::now() + kGrpcEnd;
  while (grpc_is_initialized() != 0 || MarkedThreadRuns()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      if (grpc_is_initialized() != 0) grpc_use = GrpcUse::kShared;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  threads_may_run = false;
  return true;
}

}  // namespace

void WillUseGrpc() {
  if (SilenceOwnGrpc != nullptr) SilenceOwnGrpc();
  GrpcUse expected = GrpcUse::kNone;
  const GrpcUse use = grpc_is_initialized() == 0 ? GrpcUse::kOurs : GrpcUse::kShared;
  grpc_use.compare_exchange_strong(expected, use);
  threads_may_run = true;
}

MarksNewThreads::MarksNewThreads() {
  sigset_t mark;
  sigfillset(&mark);
  sigdelset(&mark, SIGTRAP);
  pthread_sigmask(SIG_SETMASK, &mark, &before_);
}

MarksNewThreads::~MarksNewThreads() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void PrepareGrpcForFork(bool closed) {
  const GrpcUse use = grpc_use.load();
  down_at_fork = closed && (use == GrpcUse::kOurs ? AwaitGrpcEnd() : grpc_is_initialized() == 0);
  if (down_at_fork && !poller && use != GrpcUse::kNone) poller = FindGrpcPoller();
}

void BeginGrpcInChild() {
  may_use_grpc = down_at_fork;
  inherited_poller = poller;
}

bool MayUseGrpc() {
  if (inherited_poller) {
    may_use_grpc = may_use_grpc && ReplaceGrpcPoller(*inherited_poller);
    inherited_poller.reset();
  }
  return may_use_grpc;
}

}  // namespace ranklog::internal
