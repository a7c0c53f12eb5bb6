// Features of this machine's kernel, for tests whose expectations depend on them.

#ifndef TESTS_SUPPORT_KERNEL_H_
#define TESTS_SUPPORT_KERNEL_H_

#include <sys/utsname.h>

#include <cstdio>
#include <utility>

namespace ranklog::testing {

// Whether a pidfd returns the exit status of its process after the process was reaped (since Linux
// 6.15).
inline bool PidfdReportsExitStatus() {
  utsname name{};
  std::pair<int, int> version;
  return uname(&name) == 0 &&
         std::sscanf(name.release, "%d.%d", &version.first, &version.second) == 2 &&
         version >= std::pair<int, int>(6, 15);
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_KERNEL_H_
