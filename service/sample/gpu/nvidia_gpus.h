// NVIDIA's GPUs, read through NVML.

#ifndef SERVICE_SAMPLE_GPU_NVIDIA_GPUS_H_
#define SERVICE_SAMPLE_GPU_NVIDIA_GPUS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "service/sample/gpu/gpu_source.h"
#include "service/sample/gpu/nvml.h"

namespace ranklog::sample {

// NVML has at most 14 calls per device and reading. Each takes microseconds to milliseconds, some
// of them 100 ms while a device wakes up.
//
// A value that a device does not support is not asked for again. After kGpuIsLost, the other calls
// of the reading are left out for this device.
class NvidiaGpus : public GpuSource {
 public:
  // Initializes NVML, which takes seconds if no process uses the driver. Null if that fails, or
  // without devices.
  static std::unique_ptr<NvidiaGpus> Open(const nvml::Library& library);
  ~NvidiaGpus() override;

  std::vector<GpuReading> Read() override;
  model::Json Hardware() override;

 private:
  enum Quantity : uint32_t;
  struct Gpu {
    int index = 0;
    nvml::Device device = nullptr;  // null: it could not be opened, and Read() tries again
    uint32_t unsupported = 0;       // a bit for each Quantity
    bool lost = false;              // in this reading
    // Samples of hardware counters. GPM (Hopper and newer) computes rates from two of them, which
    // are those of the last reading and of this one.
    nvml::GpmSample last = nullptr;
    nvml::GpmSample next = nullptr;
    bool has_last = false;
  };

  explicit NvidiaGpus(const nvml::Library& library) : library_(library) {}
  // Calls `function` unless the device is lost, or does not support the quantity. True on success.
  template <typename Function, typename... Arguments>
  bool Ask(Gpu& gpu, Quantity quantity, Function function, Arguments... arguments);
  void ReadUse(Gpu& gpu, Values& values);
  void ReadPower(Gpu& gpu, Values& values);
  void ReadClocks(Gpu& gpu, Values& values);
  void ReadErrors(Gpu& gpu, Values& values);
  void ReadCounters(Gpu& gpu, Values& values);
  std::vector<pid_t> ReadProcesses(Gpu& gpu);
  model::Json Describe(nvml::Device gpu) const;

  const nvml::Library library_;
  std::vector<Gpu> gpus_;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_GPU_NVIDIA_GPUS_H_
