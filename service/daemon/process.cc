#include "service/daemon/process.h"

#include <sched.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace ranklog::daemon {

sigset_t TakeSignals() {
  sigset_t all;
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);   // the terminal of whoever started us is not ours to follow
  signal(SIGXFSZ, SIG_IGN);  // a write over the limit fails instead, as on a full disk
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  return ending;
}

void RaiseLimits() {
  for (const auto resource :
       {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_CPU, RLIMIT_NPROC}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
  }
}

void SayFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  spdlog::warn(
      "this process may make files of {} bytes at most, and so the store: start ranklogd by a "
      "shell with a larger `ulimit -f`",
      limit.rlim_cur);
}

void LeavePlacement() {
  // The kernel takes of these what the cgroup allows. Larger than any machine: 2^16 CPUs.
  std::vector<unsigned long> all(1024, ~0UL);
  syscall(SYS_sched_setaffinity, 0, all.size() * sizeof(unsigned long), all.data());
  const sched_param normal{};
  sched_setscheduler(0, SCHED_OTHER, &normal);
  setpriority(PRIO_PROCESS, 0, 0);
  constexpr int kDefaultPolicy = 0;  // MPOL_DEFAULT of <numaif.h>
  syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0);
  if (chdir("/") != 0) spdlog::warn("chdir /: {}", strerror(errno));
}

}  // namespace ranklog::daemon
