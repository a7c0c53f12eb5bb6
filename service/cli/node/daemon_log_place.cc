#include "service/cli/node/daemon_log_place.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ranklog/v1/places.h"
#include "service/cli/node/daemon_status.h"

namespace ranklog::cli {
namespace {

// Reads them like a rank; see StartFailure() in client/launch/daemon_start.cc.
std::string StartFailure(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  constexpr std::streamoff kTail = 4096;
  file.seekg(0, std::ios::end);
  file.seekg(std::max<std::streamoff>(file.tellg() - kTail, 0));
  const std::string tail(std::istreambuf_iterator<char>(file), {});
  const std::vector<std::string> lines = absl::StrSplit(tail, '\n', absl::SkipWhitespace());
  std::string words;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(line->front())) || line->front() == '{') {
      constexpr absl::string_view kCannot = "cannot start: ";
      const size_t at = line->find(kCannot.data());
      if (words.empty() && at != std::string::npos) words = line->substr(at + kCannot.size());
      if (line->front() == '{') words = words.substr(0, words.rfind("\"}"));
      break;
    }
    words = *line;
  }
  return words;
}

}  // namespace

absl::optional<SystemdUnit> UnitOf(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cgroup"));
  // "0::/user.slice/user-1000.slice/user@1000.service/app.slice/ranklogd.service"
  for (std::string line; std::getline(file, line);) {
    const std::string name = line.substr(line.rfind('/') + 1);
    if (!absl::StartsWith(name, "ranklogd") || !absl::EndsWith(name, ".service")) continue;
    return SystemdUnit{absl::StrContains(line, "/user@"), name};
  }
  return absl::nullopt;
}

absl::optional<DaemonLog> FindDaemonLog(const std::string& address) {
  std::vector<v1::PrivateDir> dirs = v1::StandardDirs();
  if (!NamedAddress(address).empty()) {
    dirs = {{std::filesystem::path(SocketPath(address)).parent_path().string(), /*create=*/false}};
  }
  for (const v1::PrivateDir& dir : dirs) {
    const std::string log = absl::StrCat(dir.path, "/", v1::kDaemonLogFile);
    std::error_code ignored;
    if (v1::IsOwnDirectory(dir.path, 022) && std::filesystem::is_regular_file(log, ignored)) {
      return DaemonLog{log, StartFailure(log)};
    }
  }
  return absl::nullopt;
}

}  // namespace ranklog::cli
