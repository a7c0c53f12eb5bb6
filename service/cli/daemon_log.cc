#include <deque>
#include <fstream>
#include <iostream>
#include <string>

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

absl::Status ShowDaemonLog(const Globals& globals, const DaemonLogFlags& flags) {
  const absl::optional<DaemonLog> log = FindDaemonLog(globals.address);
  if (!log) {
    return absl::NotFoundError(
        "no daemon that a rank started has left messages here; `ranklog daemon-log --help` says "
        "where "
        "others are");
  }
  std::ifstream file(log->path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(Printable(line));
    if (last.size() > flags.lines) last.pop_front();
  }
  std::cerr << log->path << "\n";
  for (const std::string& line : last) std::cout << line << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddDaemonLog(Program& program) {
  auto [options, flags] =
      program.Add("daemon-log", "show the daemon's last messages", kDaemonLogFooter, ShowDaemonLog);
  options.Add("-n,--lines", &flags.lines, "how many lines; 50 if not given", {.type = "N"});
}

}  // namespace ranklog::cli
