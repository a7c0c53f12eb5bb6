#include "client/base/headroom.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/base/event.h"

namespace ranklog::internal {
namespace {

// A connection takes 6. The rest is a margin for the trainer's threads, which may open descriptors
// between the check and gRPC's use.
constexpr rlim_t kDescriptors = 24;
// gRPC 1.51 starts a thread for each processor, within these bounds, two executors, a thread for each
// of its two kinds of timers, and up to two more for due timers. If one could not be started, gRPC
// waits for it forever when it shuts down.
constexpr uint64_t kLeastThreads = 2, kMostThreads = 32, kMoreThreads = 6;
constexpr uint64_t kUnlimitedStack = 2 << 20;  // glibc's choice for a thread
constexpr uint64_t kArena = 64 << 20;  // address space that malloc() reserves for each thread
constexpr uint64_t kMemory = 32 << 20;
// A row exists in its batch, in the serialized message, and in gRPC's slices.
constexpr uint64_t kCopies = 4;

rlim_t Limit(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

// Checks the highest numbers first: the kernel gives out the lowest free ones, so the high ones are
// free unless descriptors are short.
absl::Status HasDescriptors() {
  const rlim_t limit = Limit(RLIMIT_NOFILE);
  rlim_t free = 0;
  for (rlim_t fd = std::min<rlim_t>(limit, INT_MAX); fd > 0 && free < kDescriptors; --fd) {
    if (fcntl(static_cast<int>(fd - 1), F_GETFD) < 0 && errno == EBADF) ++free;
  }
  if (free == kDescriptors) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("too few file descriptors: only ", free, " of ", limit,
                   " are free, and a connection to the daemon needs ", kDescriptors,
                   "; raise the limit (ulimit -n)"));
}

bool IsMemoryLimited() {
  return Limit(RLIMIT_AS) != RLIM_INFINITY || Limit(RLIMIT_DATA) != RLIM_INFINITY;
}

uint64_t GrpcThreads() {
  const auto processors = static_cast<uint64_t>(std::max(sysconf(_SC_NPROCESSORS_CONF), 1L));
  return std::clamp(processors, kLeastThreads, kMostThreads) + kMoreThreads;
}

absl::Status HasMemory(uint64_t bytes) {
  if (!IsMemoryLimited()) return absl::OkStatus();
  const rlim_t space = Limit(RLIMIT_AS), data = Limit(RLIMIT_DATA);
  char text[256];
  unsigned long long pages = 0, data_pages = 0;
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (size > 0) {
    text[size] = '\0';
    sscanf(text, "%llu %*u %*u %*u %*u %llu", &pages, &data_pages);
  }
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const bool enough =
      size > 0 && pages * page + bytes <= space && data_pages * page + bytes <= data;
  if (enough) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("too little memory: sending needs ", bytes >> 20,
                   " MiB more, and the limit of this process does not allow that; raise the limit "
                   "(ulimit -v, ulimit -d)"));
}

}  // namespace

absl::Status HasRoomToConnect() {
  const absl::Status descriptors = HasDescriptors();
  if (!descriptors.ok()) return descriptors;
  const rlim_t limit = Limit(RLIMIT_STACK);
  const uint64_t stack = limit == RLIM_INFINITY ? kUnlimitedStack : limit;
  return HasMemory(kMemory + GrpcThreads() * (stack + kArena));
}

absl::Status ReserveArenas() {
  if (!IsMemoryLimited()) return absl::OkStatus();
  std::vector<std::thread> threads;
  std::atomic<uint64_t> tried = 0, allocated = 0;
  std::atomic<bool> may_end = false;
  Event event;
  const auto wait_until = [&](const auto& is_true) {
    while (true) {
      const uint32_t seen = event.Count();
      if (is_true()) return;
      event.WaitUntil(seen, Event::Time::max());
    }
  };
  try {
    threads.reserve(GrpcThreads());
    while (threads.size() < threads.capacity()) {
      threads.emplace_back([&] {
        // Not `new`, which may throw, and which the compiler may leave out.
        void* volatile memory = malloc(1);
        allocated += memory != nullptr;
        free(memory);
        ++tried;
        event.NotifyAll();
        wait_until([&] { return may_end.load(); });
      });
    }
  } catch (...) {  // fewer threads, so fewer arenas
  }
  // No thread ends earlier, because the next thread would get its arena.
  wait_until([&] { return tried == threads.size(); });
  may_end = true;
  event.NotifyAll();
  for (std::thread& thread : threads) thread.join();
  if (allocated == GrpcThreads()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "too little memory: only ", allocated.load(), " of ", GrpcThreads(),
      " threads could be started for the connection; raise the limit (ulimit -v, ulimit -u)"));
}

absl::Status HasRoomToSend(size_t bytes) { return HasMemory(kMemory + kCopies * bytes); }

}  // namespace ranklog::internal
