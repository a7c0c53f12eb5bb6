// Skips or fails a test if this machine lacks something that the test needs, such as a reference
// program or a privilege.

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

// Skips the test on a user's machine. Fails it if CI is set, since CI must have all parts.
#define SKIP_WITHOUT(present, what)                              \
  if (!(present)) {                                              \
    if (getenv("CI") != nullptr) FAIL() << "absent: " << (what); \
    GTEST_SKIP() << "absent: " << (what);                        \
  }

#endif  // TESTS_SUPPORT_ABSENT_H_
