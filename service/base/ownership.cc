#include "service/base/ownership.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ranklog {

std::string HowToKeepOthersOut(const std::string& dir) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename();
    const bool ours = entry.is_socket(error) || absl::StartsWith(name, "ranklogd.log") ||
                      absl::StartsWith(name, "ring-");
    if (!ours) return "choose a directory of your own, without other files";
  }
  return absl::StrCat("run: chmod 700 ", dir);
}

}  // namespace ranklog
