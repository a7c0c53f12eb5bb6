// What a test does when a part that it needs (a referee, a privilege) is not on this machine.

#ifndef TESTS_SUPPORT_ABSENT_H_
#define TESTS_SUPPORT_ABSENT_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

namespace ranklog::testing {

inline bool InPath(const std::string& program) {
  std::istringstream path(std::getenv("PATH"));
  for (std::string dir; std::getline(path, dir, ':');) {
    if (access((dir + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace ranklog::testing

// Skips the test on a user's machine; fails it where CI is set, which must have all parts.
#define SKIP_WITHOUT(present, what)                              \
  if (!(present)) {                                              \
    if (getenv("CI") != nullptr) FAIL() << "absent: " << (what); \
    GTEST_SKIP() << "absent: " << (what);                        \
  }

#endif  // TESTS_SUPPORT_ABSENT_H_
