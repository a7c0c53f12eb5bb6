#ifndef SERVICE_BASE_ENVIRONMENT_H_
#define SERVICE_BASE_ENVIRONMENT_H_

#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"

namespace ranklog {

// The value of an environment variable, without white space around it, such as a newline from the
// file that set it. Empty if nothing is left or the variable is unset. Ranks use the same rule
// (client/settings/environment.h), so that all programs use the same socket and directories. Not
// thread-safe, because getenv is not.
inline std::string EnvironmentVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

}  // namespace ranklog

#endif  // SERVICE_BASE_ENVIRONMENT_H_
