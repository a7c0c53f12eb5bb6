// Finds a flag with an empty value, such as `--state-dir=$UNSET` of a shell.

#ifndef SERVICE_BASE_EMPTY_FLAG_H_
#define SERVICE_BASE_EMPTY_FLAG_H_

#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace ranklog {

// The name of the first argument `--NAME=`, as `--NAME`. Empty if there is none. For such an
// argument, CLI11 takes the next one as the value, whatever it is.
inline std::string EmptyFlag(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (absl::StartsWith(arg, "--") && absl::EndsWith(arg, "=") && arg.find('=') + 1 == arg.size())
      return arg.substr(0, arg.size() - 1);
  }
  return "";
}

}  // namespace ranklog

#endif  // SERVICE_BASE_EMPTY_FLAG_H_
