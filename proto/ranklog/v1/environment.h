#ifndef RANKLOG_V1_ENVIRONMENT_H_
#define RANKLOG_V1_ENVIRONMENT_H_

#include <stdlib.h>

#include <string>

namespace ranklog::v1 {

// The value of an environment variable, without white space around it, such as a newline from the
// file that set it. Empty if nothing is left or the variable is unset. Ranks, the daemon and the
// CLI use it, so that all of them find the same socket and directories. Not thread-safe, because
// getenv is not.
inline std::string EnvironmentVariable(const char* name) {
  constexpr char kBlank[] = " \t\n\v\f\r";
  const char* const value = getenv(name);
  const std::string text = value == nullptr ? "" : value;
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace ranklog::v1

#endif  // RANKLOG_V1_ENVIRONMENT_H_
