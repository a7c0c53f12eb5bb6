// Preloaded into a program, this gives it a wall clock that its test can set. CLOCK_REALTIME is
// wrong by the nanoseconds stored as an int64_t at the start of the file $RANKLOG_TEST_CLOCK. As
// with a kernel clock, a wait until a time of that clock ends when the clock gets there, even if it
// is set meanwhile. CLOCK_BOOTTIME is wrong by the int64_t after it, if there is one. Other clocks,
// and waits for a duration, are not affected.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLook = 10'000'000;  // how often a wait checks whether the clock was set

using Syscall = long (*)(long, ...);

Syscall NextSyscall() {
  static const auto next = reinterpret_cast<Syscall>(dlsym(RTLD_NEXT, "syscall"));
  return next;
}

struct Offsets {
  std::atomic<int64_t> wall, boot;  // behind the end of the file, its page has zeros
};

const Offsets& Wrong() {
  static const Offsets none{};
  static const Offsets* const wrong = [] {
    const char* const path = getenv("RANKLOG_TEST_CLOCK");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void* const page =
        fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Offsets), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    return page == MAP_FAILED ? &none : static_cast<const Offsets*>(page);
  }();
  return *wrong;
}

int64_t Offset() { return Wrong().wall; }

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

timespec TimeOf(int64_t ns) {
  ns = std::max<int64_t>(ns, 0);
  return {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
}

int64_t KernelsTime(clockid_t clock) {
  timespec time{};
  NextSyscall()(SYS_clock_gettime, clock, &time);
  return Nanoseconds(time);
}

// FUTEX_WAIT_BITSET until a time of the wall clock.
long WaitUntil(const long* args, const timespec& until) {
  while (true) {
    const int64_t now = KernelsTime(CLOCK_REALTIME);
    const timespec look = TimeOf(std::min(Nanoseconds(until) - Offset(), now + kLook));
    const long result =
        NextSyscall()(SYS_futex, args[0], args[1], args[2], &look, args[4], args[5]);
    if (result != -1 || errno != ETIMEDOUT) return result;
    if (KernelsTime(CLOCK_REALTIME) + Offset() >= Nanoseconds(until)) {
      errno = ETIMEDOUT;
      return -1;
    }
  }
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto next =
      reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = next(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *time = TimeOf(Nanoseconds(*time) + Offset());
  } else if (result == 0 && clock == CLOCK_BOOTTIME) {
    *time = TimeOf(Nanoseconds(*time) + Wrong().boot);
  }
  return result;
}

int gettimeofday(timeval* time, void*) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* time) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (time != nullptr) *time = now.tv_sec;
  return now.tv_sec;
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long args[6];
  for (long& arg : args) arg = va_arg(list, long);
  va_end(list);
  const auto* const until = reinterpret_cast<const timespec*>(args[3]);
  if (number == SYS_futex && (args[1] & FUTEX_CLOCK_REALTIME) != 0 && until != nullptr) {
    return WaitUntil(args, *until);
  }
  return NextSyscall()(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

}  // extern "C"
