// How a process ended, as far as the kernel reports it to a process that is not its parent.

#ifndef SERVICE_INGEST_RING_PROCESS_END_H_
#define SERVICE_INGEST_RING_PROCESS_END_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "service/base/unique_fd.h"

namespace ranklog::ingest {

// The wait status, as of waitpid(2), of the process behind `pidfd`, whose pid is `pid`. nullopt if
// it runs or if the status cannot be known any more.
//
// Before Linux 6.15 the status is readable only until the parent reaps the process (field 52 of
// /proc/PID/stat, see proc(5)). Since then the pidfd reports it (PIDFD_INFO_EXIT of linux/pidfd.h).
absl::optional<int> WaitStatusOf(int pidfd, pid_t pid);

// "was killed by signal 9 (Killed)", "exited with code 3".
std::string DescribeWaitStatus(int status);

// Counts the out-of-memory kills in the memory cgroup of a process since construction. The whole
// cgroup counts, so the kill of another process in it counts too.
class OomKills {
 public:
  OomKills() = default;  // counts nothing
  explicit OomKills(pid_t pid);

  // Also 0 if the cgroup was removed or never found.
  int64_t count() const;

  // The kill counter in `text`, which is memory.events (cgroup v2) or memory.oom_control (v1).
  static int64_t Parse(const std::string& text);
  // The counter's file for the cgroup in `text`, which is /proc/PID/cgroup; empty if there is no
  // cgroup.
  static std::string FileOf(const std::string& text);

 private:
  int64_t Read() const;

  UniqueFd file_;
  int64_t before_ = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RING_PROCESS_END_H_
