// What a node shows at one moment: the input of the samples of all its runs.

#ifndef SERVICE_SAMPLE_NODE_READING_H_
#define SERVICE_SAMPLE_NODE_READING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/sample/gpu/gpu_source.h"
#include "service/sample/limits.h"
#include "service/sample/mounts.h"
#include "service/sample/node_counters.h"
#include "service/sample/process/process_table.h"

namespace ranklog::sample {

// What does not change.
struct NodeFacts {
  std::string root;  // stands for /
  CpuCounts cpus;
  std::vector<Mount> mounts;
  double ticks_per_second = 100;
  uint64_t page_size = 4096;
};

struct DiskUsage {
  std::string path;
  uint64_t total = 0;  // bytes
  uint64_t used = 0;   // bytes
  double percent = 0;  // of what ordinary users can use
};

// What could not be read is missing or empty.
struct NodeReading {
  absl::Time time;  // steady
  // Shared by the NodeSampler and its readings. Never null in a reading of NodeSampler.
  std::shared_ptr<const NodeFacts> facts;
  absl::optional<Memory> memory;
  absl::optional<std::vector<Traffic>> network;  // by interface
  absl::optional<uint64_t> tcp_retransmits;
  std::vector<Traffic> disks;  // those that hold Options::disk_paths
  std::vector<DiskUsage> disk_usage;
  std::vector<Core> cores;  // only with Options::per_core
  ProcessTable processes;
  std::vector<GpuReading> gpus;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_NODE_READING_H_
