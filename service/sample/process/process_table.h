// The processes of a node at one moment, and the trees that they form.

#ifndef SERVICE_SAMPLE_PROCESS_PROCESS_TABLE_H_
#define SERVICE_SAMPLE_PROCESS_PROCESS_TABLE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace ranklog::sample {

// What /proc/PID/stat says of a process. Times are in clock ticks, sysconf(_SC_CLK_TCK) a second.
struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  uint64_t start = 0;           // since the boot; with the pid, it identifies a process
  uint64_t cpu = 0;             // user and system time of all its threads
  uint64_t ended_children = 0;  // that of its children that ended, and of theirs
  uint64_t resident_pages = 0;
  uint64_t threads = 0;
  bool kernel_thread = false;
};

// Parses the content of /proc/PID/stat; nullopt if it has too few fields. The name of a program may
// contain any character, also blanks, parentheses and line breaks.
absl::optional<Process> ParseProcess(absl::string_view stat);

class ProcessTable {
 public:
  ProcessTable() = default;
  explicit ProcessTable(std::vector<Process> processes);

  // Null if there is no such process.
  const Process* Find(pid_t pid) const;
  // The processes `roots` that exist, and all their descendants, each once. A process whose parent
  // ended belongs to another process, so it is missing.
  std::vector<const Process*> Trees(absl::Span<const pid_t> roots) const;
  // The largest start time of all processes; 0 without a process.
  uint64_t latest_start() const { return latest_start_; }
  const std::vector<Process>& processes() const { return processes_; }

 private:
  std::vector<Process> processes_;   // by pid
  std::vector<uint32_t> by_parent_;  // positions in processes_, by parent
  uint64_t latest_start_ = 0;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_PROCESS_PROCESS_TABLE_H_
