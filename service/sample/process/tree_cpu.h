// The CPU time that process trees use between two samples.

#ifndef SERVICE_SAMPLE_PROCESS_TREE_CPU_H_
#define SERVICE_SAMPLE_PROCESS_TREE_CPU_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "service/sample/process/process_table.h"

namespace ranklog::sample {

// Counts, in clock ticks,
// - what the processes of the trees used since the last call;
// - all that a process used that started since then;
// - what a process that ended since then used, if its parent waited for it and is in the trees.
// A process that joins the trees later than it started counts from then on.
class TreeCpu {
 public:
  // `trees` are processes of `table`. Returns nullopt at the first call.
  absl::optional<uint64_t> Since(const ProcessTable& table,
                                 const std::vector<const Process*>& trees);

 private:
  // What ended processes had used at the last call, by their nearest ancestor that still runs.
  absl::flat_hash_map<pid_t, uint64_t> UsedByEnded(const ProcessTable& table) const;

  bool first_ = true;
  uint64_t latest_start_ = 0;
  absl::flat_hash_map<pid_t, Process> before_;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_PROCESS_TREE_CPU_H_
