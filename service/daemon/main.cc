// ranklogd: parses, starts, waits for a signal, stops. README.md in service/ says what it does.

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "service/daemon/config.h"
#include "service/daemon/daemon.h"
#include "service/daemon/notify.h"

namespace {

// Takes the signals that end the daemon away from all threads: main() waits for them. Whoever
// started us may have blocked or ignored some.
sigset_t TakeSignals() {
  sigset_t all;
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);  // the terminal of whoever started us is not ours to follow
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  return ending;
}

// Each rank costs three descriptors: its connection, its pidfd, its ring.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Who wants the end, for who wonders later.
std::string Sender(const siginfo_t& told) {
  if (told.si_code > 0 || told.si_pid == 0) return "the kernel";  // a terminal's Ctrl-C
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(told.si_pid) + "/comm"), name);
  return "process " + std::to_string(told.si_pid) + (name.empty() ? "" : " (" + name + ")");
}

}  // namespace

int main(int argc, char** argv) {
  const ranklog::daemon::Parsed parsed = ranklog::daemon::ParseConfig(argc, argv);
  if (!parsed.run) {
    fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const sigset_t ending = TakeSignals();
  RaiseDescriptorLimit();
  // Copies of the trackers' keys are in buffers of gRPC and curl, which no MADV_DONTDUMP reaches.
  if (!parsed.config.core_dumps) prctl(PR_SET_DUMPABLE, 0);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("ranklogd"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  spdlog::set_level(spdlog::level::from_str(parsed.config.log_level));
  const char* notify = getenv("NOTIFY_SOCKET");
  const std::string systemd = notify == nullptr ? "" : notify;

  auto daemon = ranklog::daemon::Daemon::Start(parsed.config);
  if (!daemon.ok()) {
    spdlog::error("cannot start: {}", std::string(daemon.status().message()));
    return 1;
  }
  spdlog::info("ranklogd " RANKLOG_VERSION " (pid {}) keeps its log in {}, listens at {}", getpid(),
               parsed.config.state_dir, (*daemon)->address());
  ranklog::daemon::NotifySystemd(systemd, "READY=1");

  siginfo_t told{};
  while (sigwaitinfo(&ending, &told) < 0) continue;
  spdlog::info("{} from {}: stopping", told.si_signo == SIGTERM ? "SIGTERM" : "SIGINT",
               Sender(told));
  ranklog::daemon::NotifySystemd(systemd, "STOPPING=1");
  (*daemon)->Stop(parsed.config.drain);
  spdlog::info("stopped");
  return 0;
}
