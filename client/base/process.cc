#include "client/base/process.h"

#include <sys/resource.h>
#include <time.h>

#include <new>

namespace ranklog::internal {
namespace {

uint64_t generation = 0;  // changes only in a forked child, while it has one thread

}  // namespace

Mutex* StateMutex() {
  // Never destroyed: threads may log while the process exits.
  static Mutex* const mutex = new Mutex;
  return mutex;
}

uint64_t Generation() { return generation; }

uint64_t MicrosSinceBoot() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

uint64_t MostFileBytes() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

void BeginForkedChild() {
  new (StateMutex()) Mutex;
  ++generation;
}

}  // namespace ranklog::internal
