#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_log_place.h"
#include "service/cli/node/daemon_status.h"
#include "service/storage/directories/state_lock.h"

namespace ranklog::cli {
namespace {

constexpr char kDaemon[] = "ranklogd";
constexpr absl::Duration kStopPoll = absl::Milliseconds(20);
// Time for a newly started daemon to lock its state directory. On an idle machine, that takes a few
// milliseconds.
constexpr absl::Duration kStartWait = absl::Seconds(5);

constexpr char kStopFooter[] = R"(
Nothing is lost: ranks keep their rows in the spool, and the next daemon delivers the rest. A rank that is still
running starts a new daemon, unless RANKLOG_START_DAEMON=0. A daemon with --drain first delivers for that time.

Examples:
  ranklog stop
  ranklog stop --timeout 5m     # a daemon that drains)";

struct StopFlags {
  std::string timeout = "30s";
};

// Processes that hold a flock() lock, as each daemon does on its state directory. Leaves out
// holders of a lock on `dir`.
std::set<int64_t> HoldersOfOthers(const std::string& dir) {
  struct stat info {};
  const std::string inode =
      stat(dir.c_str(), &info) == 0 ? absl::StrCat(":", info.st_ino) : std::string("none");
  std::set<int64_t> holders;
  std::ifstream locks("/proc/locks");
  std::string line;
  while (std::getline(locks, line)) {  // "1: FLOCK  ADVISORY  WRITE 1234 08:01:77 0 EOF"
    std::istringstream words(line);
    std::string number, kind, advisory, access, file;
    int64_t pid = 0;
    if (words >> number >> kind >> advisory >> access >> pid >> file && kind == "FLOCK" &&
        !absl::EndsWith(file, inode)) {
      holders.insert(pid);
    }
  }
  return holders;
}

// Whether `pid` is a running ranklogd of this user.
bool IsDaemonOfOurs(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  std::string word, name, state;
  int64_t uid = -1;
  while (uid < 0 && status >> word) {
    if (word == "Name:") status >> name;
    if (word == "State:") status >> state;
    if (word == "Uid:") status >> uid;
  }
  return name == kDaemon && state != "Z" && uid == geteuid();
}

// Whether a daemon of this user may be about to lock `dir`. That is a daemon that has no lock yet
// or no longer, or that has locked `dir` but not recorded that in its file yet. It is not known
// which directory such a daemon will use.
bool IsOneStarting(const std::string& dir) {
  const std::set<int64_t> holders = HoldersOfOthers(dir);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    int64_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || holders.count(pid) != 0) continue;
    if (IsDaemonOfOurs(name)) return true;
  }
  return false;
}

// The process that holds the directory; 0: no process holds it or is about to.
int64_t AwaitHolder(const std::string& dir) {
  const absl::Time deadline = SteadyNow() + kStartWait;
  while (true) {
    // A daemon may lock the directory between these two checks.
    const bool starting = IsOneStarting(dir);
    const int64_t pid = storage::StateLock::Holder(dir);
    if (pid != 0 || !starting || SteadyNow() > deadline) return pid;
    absl::SleepFor(kStopPoll);
  }
}

// The first 15 bytes of the program's name.
std::string ProgramOf(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

absl::Status Stop(const Globals& globals, const StopFlags& flags) {
  ASSIGN_OR_RETURN(const std::string dir, globals.StateDir());
  const int64_t pid = AwaitHolder(dir);
  if (pid == 0) {
    std::cout << "no daemon is running for " << dir;
    if (const auto other = FindOtherDaemon(dir, globals.address)) {
      std::cout << "; " << OtherDaemonText(*other) << "; to stop that one, run: "
                << Globals{.state_dir = other->state_dir, .address = ""}.Command("stop");
    }
    std::cout << "\n";
    return absl::OkStatus();
  }
  if (!IsDaemon(pid)) {
    return absl::FailedPreconditionError(absl::StrCat("process ", pid, " (", ProgramOf(pid),
                                                      ") holds ", dir,
                                                      " and is not a daemon; wait until it ends"));
  }
  const SystemdUnit unit = UnitOf(pid).value_or(SystemdUnit{true, "ranklogd.service"});
  auto daemon = FindDaemon(dir, globals.address);
  if (daemon && daemon->pid != pid) daemon.reset();
  if (kill(static_cast<pid_t>(pid), SIGTERM) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot stop process ", pid, ": ", strerror(errno),
                     "; run `ranklog stop` as the user that started it"));
  }
  absl::Duration timeout;
  absl::ParseDuration(flags.timeout, &timeout);
  const absl::Time deadline = SteadyNow() + timeout;
  while (storage::StateLock::Holder(dir) == pid) {
    if (SteadyNow() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("process ", pid, " has not ended after ",
                                                      flags.timeout, "; the signal was sent; see `",
                                                      globals.Command("daemon-log"), "`"));
    }
    absl::SleepFor(kStopPoll);
  }
  std::cout << "stopped pid " << pid << "\n";
  // It did not answer because it had no free descriptor or was slow.
  if (!daemon) return absl::OkStatus();
  if (daemon->started_by == "systemd") {
    const std::string socket = absl::StrCat(absl::StripSuffix(unit.name, ".service"), ".socket");
    std::cout << "systemd starts it again when a rank connects; to prevent that, run `"
              << (unit.of_user_manager
                      ? absl::StrCat("systemctl --user stop ", socket, " ", unit.name)
                      : absl::StrCat("systemctl stop ", socket))
              << "`" << (unit.of_user_manager ? "" : " as root") << "\n";
  } else if (daemon->live_streams > 0) {
    std::cout << Counted(daemon->live_streams, "stream")
              << " of ranks were connected; running ranks start another daemon\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddStop(Program& program) {
  auto [options, flags] =
      program.Add("stop", "stop the daemon; nothing is lost", kStopFooter, Stop);
  options.Add("--timeout", &flags.timeout, "how long to wait for the daemon's end; default 30s",
              {.type = "DURATION", .check = CheckDuration});
}

}  // namespace ranklog::cli
