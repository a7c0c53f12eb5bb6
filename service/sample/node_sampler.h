// Reads what a node uses: memory, disks, network, processes, GPUs. The daemon reads it once per
// tick, and derives the sample of each run from that (run_sampler.h).
//
// Not thread-safe. Nothing here fails: what cannot be read is missing from the result.

#ifndef SERVICE_SAMPLE_NODE_SAMPLER_H_
#define SERVICE_SAMPLE_NODE_SAMPLER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/model/item.h"
#include "service/sample/gpu/gpu_thread.h"
#include "service/sample/node_reading.h"
#include "service/sample/process/proc_file.h"
#include "service/sample/process/process_reader.h"

namespace ranklog::sample {

// Make one when the first run begins, and destroy it when no run is live: while it exists, NVML
// keeps the GPUs open, and an administrator cannot reset them.
class NodeSampler {
 public:
  struct Options {
    std::string root = "";  // a directory that stands for /, with proc and sys in it
    // Absolute paths whose space and devices are sampled. A path on a network file system may block
    // Read() for as long as its server does not answer.
    std::vector<std::string> disk_paths = {"/"};
    bool per_core = false;  // adds cpu.{i}.cpu_percent of each core
    std::string nvml = "libnvidia-ml.so.1";
    // Read() waits this long for GPU values. It then returns without them, until the driver answers.
    absl::Duration gpu_wait = absl::Seconds(2);
  };

  // Starts a thread if the node has GPUs.
  explicit NodeSampler(Options options);

  // `now` is of the steady clock. Costs some 10 us of CPU time per process, and what the GPUs'
  // driver takes. The first reading may lack GPUs, because the driver takes seconds to start.
  NodeReading Read(absl::Time now);

  // Facts that do not change, as members of W&B's EnvironmentRecord: cpu_count, cpu_count_logical,
  // disk, memory, gpu, gpu_count, gpu_nvidia, cudaVersion, gpu_amd. Waits up to 10 s for the GPUs'
  // driver.
  model::Json Hardware();

 private:
  absl::optional<std::vector<Traffic>> ReadNetwork();
  std::vector<Traffic> ReadDisks();
  std::vector<DiskUsage> ReadDiskUsage() const;

  const Options options_;
  const std::shared_ptr<const NodeFacts> facts_;
  ProcFile meminfo_;
  ProcFile net_dev_;
  ProcFile snmp_;
  ProcFile diskstats_;
  ProcFile stat_;
  ProcessReader processes_;
  std::unique_ptr<GpuThread> gpus_;  // null without GPUs
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_NODE_SAMPLER_H_
