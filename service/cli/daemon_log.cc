#include <deque>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_log_place.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/output/terminal.h"

namespace ranklog::cli {
namespace {

constexpr char kDaemonLogFooter[] = R"(
If a rank, Slurm's prolog or `ranklogd --background` started the daemon, its messages are in ranklogd.log
beside its socket. If systemd started it, use journalctl --user -u ranklogd, or journalctl -u ranklogd@UID
for the system's unit. A daemon in the foreground prints them on its terminal.

Examples:
  ranklog daemon-log
  ranklog daemon-log -n 1000 | grep error)";

struct DaemonLogFlags {
  uint64_t lines = 50;
};

// The journalctl command for the log of the answering daemon, if it logs to journald; else empty.
std::string JournalCommand(const Globals& globals) {
  for (const std::string& address : AddressesOfRanks(globals.address)) {
    const absl::StatusOr<DaemonStatus> daemon = AskDaemon(address);
    if (!daemon.ok()) continue;
    if (daemon->started_by != "systemd") return "";
    const SystemdUnit unit = UnitOf(daemon->pid).value_or(SystemdUnit{true, "ranklogd.service"});
    return absl::StrCat("journalctl ", unit.of_user_manager ? "--user " : "", "-u ", unit.name);
  }
  return "";
}

absl::Status ShowDaemonLog(const Globals& globals, const DaemonLogFlags& flags) {
  if (const std::string journal = JournalCommand(globals); !journal.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "systemd started the daemon, so its messages are in the journal; run: ", journal, " -n ",
        flags.lines));
  }
  const absl::optional<DaemonLog> log = FindDaemonLog(globals.address);
  if (!log) {
    return absl::NotFoundError(
        "found no ranklogd.log beside a socket; for other logs, see `ranklog daemon-log --help`");
  }
  std::ifstream file(log->path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(Printable(line));
    if (last.size() > flags.lines) last.pop_front();
  }
  std::cerr << log->path << "\n";
  if (!globals.address.empty() && !AskDaemon(globals.address).ok()) {
    std::cerr << "no daemon answers at " << globals.address
              << "; all daemons with a socket in that directory write to this log\n";
  }
  for (const std::string& line : last) std::cout << line << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddDaemonLog(Program& program) {
  auto [options, flags] =
      program.Add("daemon-log", "show the daemon's last messages", kDaemonLogFooter, ShowDaemonLog);
  options.Add("-n,--lines", &flags.lines, "number of lines; default 50",
              {.type = "N", .check = CheckCount});
}

}  // namespace ranklog::cli
