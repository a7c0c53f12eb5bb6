#include "service/base/ownership.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ranklog {

std::string HowToKeepOthersOut(const std::string& dir) {
  std::error_code error;
  bool only_ours = true;
  for (std::filesystem::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::error_code gone;
    only_ours = only_ours && (entry->is_socket(gone) || absl::StartsWith(name, "ranklogd.log") ||
                              absl::StartsWith(name, "ring-"));
  }
  if (error || !only_ours) return "choose a directory of your own, without other files";
  return absl::StrCat("run: chmod 700 ", dir);
}

}  // namespace ranklog
