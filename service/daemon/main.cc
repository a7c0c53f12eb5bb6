// ranklogd: parses, starts, waits for a signal, stops. README.md in service/ says what it does.

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
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

}  // namespace

int main(int argc, char** argv) {
  const ranklog::daemon::Parsed parsed = ranklog::daemon::ParseConfig(argc, argv);
  if (!parsed.run) {
    fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const sigset_t ending = TakeSignals();
  RaiseDescriptorLimit();
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

  int number = 0;
  while (sigwait(&ending, &number) != 0) continue;
  spdlog::info("{}: stopping", number == SIGTERM ? "SIGTERM" : "SIGINT");
  ranklog::daemon::NotifySystemd(systemd, "STOPPING=1");
  (*daemon)->Stop(parsed.config.drain);
  spdlog::info("stopped");
  return 0;
}
