// AMD's GPUs, read from /sys/class/drm. The SDK runs the program rocm-smi for each sample instead.

#ifndef SERVICE_SAMPLE_GPU_AMD_GPUS_H_
#define SERVICE_SAMPLE_GPU_AMD_GPUS_H_

#include <memory>
#include <string>
#include <vector>

#include "service/sample/gpu/gpu_source.h"

namespace ranklog::sample {

class AmdGpus : public GpuSource {
 public:
  // Null if the node has none. `root` stands for /.
  static std::unique_ptr<AmdGpus> Open(const std::string& root);

  std::vector<GpuReading> Read() override;
  model::Json Hardware() override;

 private:
  struct Gpu {
    std::string device;              // its directory in /sys
    std::string power;               // file, in microwatts; empty: none
    std::string cap;                 // file, in microwatts
    std::string memory_temperature;  // file, in thousandths of a degree; empty: none
  };
  static Gpu Find(const std::string& device);

  std::vector<Gpu> gpus_;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_GPU_AMD_GPUS_H_
