#include "service/daemon/serve.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ranklog/v1/places.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/daemon/daemon.h"
#include "service/daemon/process/background.h"
#include "service/daemon/process/process.h"
#include "service/daemon/process/systemd_notify.h"
#include "service/daemon/process/watchdog.h"
#include "service/ingest/control_channel.h"
#include "service/ingest/server/listen_socket.h"
#include "service/storage/database/store_file.h"

namespace ranklog::daemon {
namespace {

// Less than the 5 s that the Slurm prolog allows.
constexpr absl::Duration kOtherStarts = absl::Seconds(4);
constexpr absl::Duration kOtherPoll = absl::Milliseconds(20);

// Names the sender of the signal, for the log.
std::string Sender(const siginfo_t& received) {
  if (received.si_code > 0 || received.si_pid == 0)
    return "the kernel";  // e.g. Ctrl-C in a terminal
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(received.si_pid) + "/comm"), name);
  return "process " + std::to_string(received.si_pid) + (name.empty() ? "" : " (" + name + ")");
}

enum class End { kSignal, kIdle, kSuperseded, kStoreRemoved, kLockTaken };

// Waits for a reason to end. Checks once a second, or as often as the watchdog needs it.
End WaitForEnd(const sigset_t& ending, absl::Duration idle_exit, Daemon& daemon, Watchdog& watchdog,
               siginfo_t* received) {
  const timespec look = absl::ToTimespec(std::min(absl::Seconds(1), watchdog.interval()));
  absl::Time busy = SteadyNow();
  while (sigtimedwait(&ending, received, &look) < 0) {
    watchdog.Check(SteadyNow(), daemon.HangingLoop(watchdog.limit()));
    daemon.Tick();
    if (!daemon.StoreInPlace()) return End::kStoreRemoved;
    if (!daemon.KeepLock()) return End::kLockTaken;
    if (daemon.IsSuperseded()) return End::kSuperseded;
    if (idle_exit == absl::InfiniteDuration()) continue;
    const absl::Time now = SteadyNow();
    if (!daemon.IsIdle()) busy = now;
    if (now - busy >= idle_exit) return End::kIdle;
  }
  return End::kSignal;
}

// The end of --background if another daemon has the socket. With one candidate for the state
// directory, the user chose it, so a daemon of another directory is not the one that was wanted.
struct Answered {
  int exit_code = 0;
  std::string text;
};
Answered AnsweredBy(const ingest::SocketHolder& holder,
                    const std::vector<std::string>& state_dirs) {
  if (holder.state_dir.empty()) {
    // Not the pid: under systemd, it is that of systemd, which made the socket.
    return {1, fmt::format("another daemon listens at {0}, but does not answer; to see why, run: "
                           "ranklog doctor --address unix:{0}",
                           holder.path)};
  }
  std::error_code ignored;
  const bool elsewhere =
      state_dirs.size() == 1 &&
      !std::filesystem::equivalent(holder.state_dir, state_dirs.front(), ignored);
  return {elsewhere ? 1 : 0,
          fmt::format("{} daemon already {}; its {}; to replace it, run first: {}",
                      elsewhere ? "another" : "a", holder.Text(),
                      elsewhere ? "state directory and options stay" : "options stay",
                      holder.StopCommand())};
}

// Whether another daemon that holds the store or the address answers there soon. It may have been
// started at the same time, for example by the prologs of two jobs.
bool AnotherStarts(const std::string& path) {
  const absl::Time deadline = SteadyNow() + kOtherStarts;
  while (!ingest::IsListening(path)) {
    if (SteadyNow() >= deadline) return false;
    absl::SleepFor(kOtherPoll);
  }
  return true;
}

// Asks the daemon that listens there, more than once, because a busy one is slow. A question takes
// at most two seconds, so two of them end within kOtherStarts.
ingest::SocketHolder HolderThatAnswers(const std::string& path) {
  const absl::Time deadline = SteadyNow() + kOtherStarts - absl::Milliseconds(1500);
  while (true) {
    ingest::SocketHolder holder = ingest::HolderOfSocket(path);
    if (!holder.state_dir.empty() || SteadyNow() >= deadline) return holder;
    absl::SleepFor(kOtherPoll);
  }
}

// Names the daemon, if that is why this one cannot start.
absl::Status NameHolder(const absl::Status& why, const std::string& path) {
  if (!absl::StartsWith(why.message(), ingest::kOtherAnswers)) return why;
  const auto holder = ingest::HolderOfSocket(path);
  return absl::AlreadyExistsError(
      fmt::format("another daemon {}; to stop it, run: {}", holder.Text(), holder.StopCommand()));
}

int CannotStart(const absl::Status& why, Background& background) {
  const std::string text = "cannot start: " + std::string(why.message());
  spdlog::error(text);
  background.Report(1, "ranklogd: " + text);
  return 1;
}

void LogStoreIsGone(const std::string& state_dir) {
  if (std::filesystem::exists(state_dir + "/" + storage::kStoreFile)) {
    spdlog::error(
        "the store in {} was replaced while the daemon was running, with its undelivered rows; "
        "live "
        "ranks continue in the store that is there now and count the rows that it lacks as lost "
        "(with_store)",
        state_dir);
    return;
  }
  spdlog::error(
      "the store in {} was removed while the daemon was running, with its undelivered rows; a new "
      "store was created; live ranks continue there and count the rows as lost (with_store)",
      state_dir);
}

// Serves until a signal arrives. If the store is removed, a new store is created in the same place,
// as after a restart. So no rank waits for a person or for a service manager, which may not exist.
int ServeUntilEnd(const Config& config, const std::string& systemd, const sigset_t& ending,
                  Background& background) {
  siginfo_t received{};
  auto watchdog = Watchdog::FromEnvironment();
  while (true) {
    auto daemon = Daemon::Start(config);
    if (config.background && absl::IsAlreadyExists(daemon.status()) &&
        AnotherStarts(config.socket_path)) {
      const Answered answered =
          AnsweredBy(HolderThatAnswers(config.socket_path), config.state_dirs);
      background.Report(answered.exit_code, answered.text);
      return answered.exit_code;
    }
    if (!daemon.ok()) {
      return CannotStart(NameHolder(daemon.status(), config.socket_path), background);
    }
    const std::string serves =
        fmt::format("ranklogd " RANKLOG_VERSION " (pid {}) keeps its log in {}, listens at {}",
                    getpid(), (*daemon)->state_dir(), (*daemon)->address());
    spdlog::info(serves);
    const std::string& set_aside = (*daemon)->set_aside();
    background.Report(0, set_aside.empty() ? serves : set_aside + "\n" + serves);
    NotifySystemd(systemd, "READY=1");
    const End end = WaitForEnd(ending, config.idle_exit, **daemon, watchdog, &received);
    if (end == End::kLockTaken) {
      NotifySystemd(systemd, "STOPPING=1");
      (*daemon)->Stop(absl::ZeroDuration());
      spdlog::error("stopped, because another process has the store");
      return 1;
    }
    if (end != End::kStoreRemoved) {
      const bool drains = end == End::kSignal && config.drain > absl::ZeroDuration();
      if (end == End::kIdle) {
        spdlog::info("no rank was attached for {}, and no delivery is due: stopping (--idle-exit)",
                     absl::FormatDuration(config.idle_exit));
      } else if (end == End::kSuperseded) {
        spdlog::info("systemd listens at {} now: stopping, so that its daemon can take over",
                     (*daemon)->address());
      } else {
        spdlog::info("{} from {}: stopping{}", received.si_signo == SIGTERM ? "SIGTERM" : "SIGINT",
                     Sender(received),
                     drains ? "; delivering for at most " + absl::FormatDuration(config.drain) +
                                  "; another signal stops at once"
                            : "");
      }
      NotifySystemd(systemd, "STOPPING=1");
      // After this, another signal ends the process like SIGKILL, which loses nothing.
      if (drains) sigprocmask(SIG_UNBLOCK, &ending, nullptr);
      (*daemon)->Stop(end == End::kSuperseded ? absl::ZeroDuration() : config.drain);
      spdlog::info("stopped");
      return 0;
    }
    LogStoreIsGone((*daemon)->state_dir());
  }
}

}  // namespace

int Serve(const Config& config, const sigset_t& ending) {
  Background background;
  if (config.background) {
    const std::string& path = config.socket_path;
    if (ingest::IsListening(path)) {
      const Answered answered = AnsweredBy(HolderThatAnswers(path), config.state_dirs);
      fprintf(answered.exit_code == 0 ? stdout : stderr, "%s\n", answered.text.c_str());
      return answered.exit_code;
    }
    const auto dir = std::filesystem::path(path).parent_path();
    const absl::Status entered = background.Enter(dir / v1::kDaemonLogFile);
    if (!entered.ok()) return CannotStart(entered, background);
  }
  if (const absl::Status enough = CheckDescriptors(); !enough.ok()) {
    return CannotStart(enough, background);
  }
  return ServeUntilEnd(config, EnvironmentVariable("NOTIFY_SOCKET"), ending, background);
}

}  // namespace ranklog::daemon
