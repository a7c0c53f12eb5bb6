#include <unistd.h>

#include <deque>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/cli/command.h"
#include "service/cli/daemon_status.h"
#include "service/cli/terminal.h"

namespace ranklog::cli {
namespace {

constexpr char kDaemonLogFooter[] = R"(
A daemon that a rank started writes its messages beside its socket. Of one that systemd started, journald has
them: journalctl --user -u ranklogd. Of one that you started, your terminal.

Examples:
  ranklog daemon-log
  ranklog daemon-log -n 1000 | grep error)";

struct DaemonLogFlags {
  uint64_t lines = 50;
};

absl::Status DaemonLog(const Globals& globals, const DaemonLogFlags& flags) {
  const std::vector<std::string> paths = globals.address.empty()
                                             ? DaemonLogPaths()
                                             : std::vector<std::string>{LogPath(globals.address)};
  for (const std::string& path : paths) {
    std::ifstream file(path);
    if (!file) continue;
    std::deque<std::string> last;
    for (std::string line; std::getline(file, line);) {
      last.push_back(Printable(line));
      if (last.size() > flags.lines) last.pop_front();
    }
    std::cerr << path << "\n";
    for (const std::string& line : last) std::cout << line << "\n";
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(
      "no daemon that a rank started has left messages here; looked for ",
      absl::StrJoin(paths, ", "), ". `ranklog daemon-log --help` says where others are"));
}

}  // namespace

void AddDaemonLog(Program& program) {
  auto [options, flags] =
      program.Add("daemon-log", "show the daemon's last messages", kDaemonLogFooter, DaemonLog);
  options.Add("-n,--lines", &flags.lines, "how many lines; 50 if not given", {.type = "N"});
}

}  // namespace ranklog::cli
