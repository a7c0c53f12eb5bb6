// Makes the samples of one run from the readings of its node.

#ifndef SERVICE_SAMPLE_RUN_SAMPLER_H_
#define SERVICE_SAMPLE_RUN_SAMPLER_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "service/sample/limits.h"
#include "service/sample/node_reading.h"
#include "service/sample/process/tree_cpu.h"
#include "service/sample/traffic_since.h"
#include "service/sample/values.h"

namespace ranklog::sample {

// Not thread-safe. All readings of a RunSampler must be of one NodeSampler, in their order.
class RunSampler {
 public:
  // `pids`: the run's ranks on this node. Their descendants count too. If the pid of a rank that
  // ended is used again, the new process does not count as long as `pids` contains it.
  //
  // CPU time counts between two samples, so the first one lacks it. Network and disk traffic counts
  // from the first sample. Without a visible process of the run, the values of processes are
  // missing.
  Values Sample(const NodeReading& reading, absl::Span<const pid_t> pids);

 private:
  // The ranks that exist, and have not been replaced by another process.
  std::vector<pid_t> Ranks(const NodeReading& reading, absl::Span<const pid_t> pids);
  void AddCpu(const NodeReading& reading, const std::vector<const Process*>& trees, Values& values);
  void AddCores(const NodeReading& reading, Values& values);
  void AddMemory(const NodeReading& reading, const std::vector<const Process*>& trees,
                 Values& values) const;
  void AddTraffic(const NodeReading& reading, Values& values);

  absl::flat_hash_map<pid_t, uint64_t> starts_;  // of `pids`, when they were first seen
  std::vector<pid_t> ranks_;                     // of the last sample
  uint32_t samples_ = 0;
  Limits limits_;
  TreeCpu cpu_;
  absl::Time last_time_;
  std::vector<Core> last_cores_;
  TrafficSince network_;
  TrafficSince tcp_;  // retransmitted segments instead of bytes
  TrafficSince disks_;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_RUN_SAMPLER_H_
