// The part of NVML that we call: NVIDIA's library that reads its GPUs. It belongs to the driver, so
// it is loaded at run time. The declarations follow NVIDIA's documentation of NVML's C interface
// (docs.nvidia.com/deploy/nvml-api).

#ifndef SERVICE_SAMPLE_GPU_NVML_H_
#define SERVICE_SAMPLE_GPU_NVML_H_

#include <string>
#include <type_traits>

namespace ranklog::sample::nvml {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kInsufficientSize = 7;
inline constexpr Result kFunctionNotFound = 13;
inline constexpr Result kGpuIsLost = 15;
inline constexpr Result kResetRequired = 16;

struct DeviceHandle;  // opaque
using Device = DeviceHandle*;
struct GpmSampleHandle;  // opaque
using GpmSample = GpmSampleHandle*;

struct Utilization {
  unsigned gpu, memory;  // percent
};
struct Memory {
  unsigned long long total, free, used;  // bytes
};
struct ProcessInfo {  // of versions 2 and 3 of the function
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
struct GpmSupport {
  unsigned version, is_supported;
};
struct GpmMetric {
  unsigned id;
  Result result;
  double value;
  char* names[3];
};
struct GpmMetrics {
  unsigned version, count;
  GpmSample first, second;
  GpmMetric metrics[512];  // The library reads `count` of them. Its own array has 98 to 333.
};

enum ClockType : int { kSmClock = 1, kMemoryClock = 2 };
enum MemoryErrorType : int { kCorrected = 0, kUncorrected = 1 };
inline constexpr int kGpuSensor = 0;
inline constexpr int kVolatileCounter = 0;  // since the driver was loaded
inline constexpr int kDeviceMemory = 2;
inline constexpr unsigned kGpmVersion = 1;

// The functions; null: this version of the library lacks it.
struct Library {
  Result (*Init)() = nullptr;
  Result (*Shutdown)() = nullptr;
  Result (*CudaDriverVersion)(int* version) = nullptr;
  Result (*DeviceCount)(unsigned* count) = nullptr;
  Result (*DeviceByIndex)(unsigned index, Device* device) = nullptr;
  Result (*Name)(Device, char* name, unsigned length) = nullptr;
  Result (*Uuid)(Device, char* uuid, unsigned length) = nullptr;
  Result (*Cores)(Device, unsigned* cores) = nullptr;
  Result (*Architecture)(Device, unsigned* architecture) = nullptr;
  Result (*UtilizationRates)(Device, Utilization*) = nullptr;
  Result (*MemoryInfo)(Device, Memory*) = nullptr;
  Result (*Temperature)(Device, int sensor, unsigned* celsius) = nullptr;
  Result (*PowerUsage)(Device, unsigned* milliwatts) = nullptr;
  Result (*PowerLimit)(Device, unsigned* milliwatts) = nullptr;
  Result (*Clock)(Device, int type, unsigned* mhz) = nullptr;
  Result (*MemoryErrors)(Device, int type, int counter, int location,
                         unsigned long long* count) = nullptr;
  Result (*FanSpeed)(Device, unsigned* percent) = nullptr;
  Result (*ComputeProcesses)(Device, unsigned* count, ProcessInfo*) = nullptr;
  Result (*GpmQuerySupport)(Device, GpmSupport*) = nullptr;
  Result (*GpmSampleAlloc)(GpmSample*) = nullptr;
  Result (*GpmSampleFree)(GpmSample) = nullptr;
  Result (*GpmSampleGet)(Device, GpmSample) = nullptr;
  Result (*GpmMetricsGet)(GpmMetrics*) = nullptr;
};

// Calls `function`, or returns kFunctionNotFound.
template <typename Function, typename... Arguments>
Result Call(Function function, Arguments... arguments) {
  if constexpr (std::is_pointer_v<Function>) {
    if (function == nullptr) return kFunctionNotFound;
  }
  return function(arguments...);
}

// Loads the library `name`. False if it does not exist, or lacks the functions that find devices.
// It stays loaded until the process ends, because its threads may not have ended before.
bool Load(const std::string& name, Library& library);

}  // namespace ranklog::sample::nvml

#endif  // SERVICE_SAMPLE_GPU_NVML_H_
