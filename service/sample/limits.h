// What a run may use of a node: its CPUs and memory.

#ifndef SERVICE_SAMPLE_LIMITS_H_
#define SERVICE_SAMPLE_LIMITS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "service/sample/mounts.h"

namespace ranklog::sample {

struct CpuCounts {
  int physical = 0;
  int logical = 0;
};
// Of the machine; 0 if unknown. `root` stands for /.
CpuCounts ReadCpuCounts(const std::string& root);

struct Limits {
  absl::optional<double> cpus;     // nullopt: all of the machine
  absl::optional<uint64_t> bytes;  // nullopt: all of the machine
  std::string memory_current;      // the file with the memory that counts towards `bytes`
};

// The limits of these processes: the smallest of their control group (version 2) and the groups
// above it, because Slurm limits the job, not the step's groups. The CPUs to which the processes are
// bound are a limit too, if they are fewer than `logical`.
//
// Uses the group of the first process that exists. Costs about three system calls per file: two for
// each process, and two for each group.
Limits ReadLimits(const std::string& root, const std::vector<Mount>& mounts, int logical,
                  absl::Span<const pid_t> pids);

// Marks the CPUs of a list such as 0-3,8 in `cpus`, which grows as needed.
void MarkCpus(absl::string_view list, std::vector<bool>& cpus);

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_LIMITS_H_
