// What this machine's kernel can do, where a test must know what to ask for.

#ifndef TESTS_SUPPORT_KERNEL_H_
#define TESTS_SUPPORT_KERNEL_H_

#include <sys/utsname.h>

#include <cstdio>
#include <utility>

namespace ranklog::testing {

// Whether a pidfd tells how its process ended after that was reaped: since Linux 6.15.
inline bool PidfdTellsTheEnd() {
  utsname name{};
  std::pair<int, int> version;
  return uname(&name) == 0 &&
         std::sscanf(name.release, "%d.%d", &version.first, &version.second) == 2 &&
         version >= std::pair<int, int>(6, 15);
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_KERNEL_H_
