// The GPUs of a node, of one vendor.

#ifndef SERVICE_SAMPLE_GPU_GPU_SOURCE_H_
#define SERVICE_SAMPLE_GPU_GPU_SOURCE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "service/model/item.h"
#include "service/sample/values.h"

namespace ranklog::sample {

struct GpuReading {
  int index = 0;
  Values values;            // names without gpu.{index}.
  std::vector<pid_t> pids;  // of the processes that use it; empty if unknown
};

// Not thread-safe. A call takes as long as the driver takes, which may be for ever.
class GpuSource {
 public:
  virtual ~GpuSource() = default;
  // What a GPU does not support, or what fails, is missing.
  virtual std::vector<GpuReading> Read() = 0;
  // The members of NodeSampler::Hardware() that describe GPUs.
  virtual model::Json Hardware() = 0;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_GPU_GPU_SOURCE_H_
