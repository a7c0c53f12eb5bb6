// How a process ended, as far as the kernel tells somebody who is not its parent.

#ifndef SERVICE_INGEST_PROCESS_END_H_
#define SERVICE_INGEST_PROCESS_END_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "service/ingest/unique_fd.h"

namespace ranklog::ingest {

// The wait status, as of waitpid(2), of the process behind `pidfd`, whose pid is `pid`. None if it
// runs, or if nobody can know any more: before Linux 6.15 only a process that its parent has not
// reaped yet tells (field 52 of /proc/PID/stat, see proc(5)); since then the pidfd does
// (PIDFD_INFO_EXIT of linux/pidfd.h).
absl::optional<int> WaitStatusOf(int pidfd, pid_t pid);

// "was killed by signal 9 (Killed)", "exited with code 3".
std::string DescribeWaitStatus(int status);

// Counts the processes that the kernel killed for lack of memory in the memory cgroup of a process,
// from now on. All of its cgroup, so a neighbour's end counts too.
class OomKills {
 public:
  OomKills() = default;  // counts nothing
  explicit OomKills(pid_t pid);

  // 0 as well if the cgroup is gone, or was never seen.
  int64_t count() const;

  // Reads the counter of memory.events (cgroup v2) or memory.oom_control (v1) in `text`.
  static int64_t Parse(const std::string& text);
  // The counter's file of the cgroup that `text`, of /proc/PID/cgroup, names; empty if none.
  static std::string FileOf(const std::string& text);

 private:
  int64_t Read() const;

  UniqueFd file_;
  int64_t before_ = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_PROCESS_END_H_
