#include "service/daemon/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ranklog::daemon {
namespace {

// The store's readers and the trackers' connections take about 40 descriptors. Ranks may take two
// thirds of the limit (ingest/server/acceptor.cc).
constexpr rlim_t kDescriptors = 64;

}  // namespace

sigset_t BlockEndSignals() {
  sigset_t all;
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);   // the starter's terminal does not control the daemon
  signal(SIGXFSZ, SIG_IGN);  // a write over the limit then fails, as on a full disk
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

absl::Status CheckDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  rlim_t free = 0;
  // Starts with the highest numbers, which are free in almost all processes.
  for (rlim_t fd = std::min<rlim_t>(limit.rlim_cur, INT_MAX); fd > 0 && free < kDescriptors; --fd) {
    if (fcntl(static_cast<int>(fd - 1), F_GETFD) < 0 && errno == EBADF) ++free;
  }
  if (free == kDescriptors) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("too few file descriptors: only ", free, " of ", limit.rlim_cur,
                   " are free, and ranklogd needs ", kDescriptors,
                   "; raise the hard limit (ulimit -Hn, or LimitNOFILE= of the service)"));
}

void LogFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  spdlog::warn(
      "the store cannot grow beyond {} bytes, the file size limit of this process; start ranklogd "
      "from a shell with a larger `ulimit -f`",
      limit.rlim_cur);
}

void ResetPlacement() {
  // The kernel reduces the mask to the CPUs that the cgroup allows. 2^16 CPUs are more than any
  // machine has.
  std::vector<unsigned long> all(1024, ~0UL);
  syscall(SYS_sched_setaffinity, 0, all.size() * sizeof(unsigned long), all.data());
  const sched_param normal{};
  sched_setscheduler(0, SCHED_OTHER, &normal);
  setpriority(PRIO_PROCESS, 0, 0);
  constexpr int kDefaultPolicy = 0;  // MPOL_DEFAULT of <numaif.h>
  syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0);
  if (chdir("/") != 0) spdlog::warn("cannot change to the directory /: {}", strerror(errno));
}

}  // namespace ranklog::daemon
