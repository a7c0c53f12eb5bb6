#include "service/sample/gpu/nvml.h"

#include <dlfcn.h>

namespace ranklog::sample::nvml {
namespace {

template <typename Function>
void Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

bool Load(const std::string& name, Library& library) {
  void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return false;
  Find(file, "nvmlInit_v2", library.Init);
  Find(file, "nvmlShutdown", library.Shutdown);
  Find(file, "nvmlSystemGetCudaDriverVersion_v2", library.CudaDriverVersion);
  Find(file, "nvmlDeviceGetCount_v2", library.DeviceCount);
  Find(file, "nvmlDeviceGetHandleByIndex_v2", library.DeviceByIndex);
  Find(file, "nvmlDeviceGetName", library.Name);
  Find(file, "nvmlDeviceGetUUID", library.Uuid);
  Find(file, "nvmlDeviceGetNumGpuCores", library.Cores);
  Find(file, "nvmlDeviceGetArchitecture", library.Architecture);
  Find(file, "nvmlDeviceGetUtilizationRates", library.UtilizationRates);
  Find(file, "nvmlDeviceGetMemoryInfo", library.MemoryInfo);
  Find(file, "nvmlDeviceGetTemperature", library.Temperature);
  Find(file, "nvmlDeviceGetPowerUsage", library.PowerUsage);
  Find(file, "nvmlDeviceGetEnforcedPowerLimit", library.PowerLimit);
  Find(file, "nvmlDeviceGetClockInfo", library.Clock);
  Find(file, "nvmlDeviceGetMemoryErrorCounter", library.MemoryErrors);
  Find(file, "nvmlDeviceGetFanSpeed", library.FanSpeed);
  Find(file, "nvmlDeviceGetComputeRunningProcesses_v3", library.ComputeProcesses);
  if (library.ComputeProcesses == nullptr) {  // drivers before 510
    Find(file, "nvmlDeviceGetComputeRunningProcesses_v2", library.ComputeProcesses);
  }
  Find(file, "nvmlGpmQueryDeviceSupport", library.GpmQuerySupport);
  Find(file, "nvmlGpmSampleAlloc", library.GpmSampleAlloc);
  Find(file, "nvmlGpmSampleFree", library.GpmSampleFree);
  Find(file, "nvmlGpmSampleGet", library.GpmSampleGet);
  Find(file, "nvmlGpmMetricsGet", library.GpmMetricsGet);
  return library.Init != nullptr && library.DeviceCount != nullptr &&
         library.DeviceByIndex != nullptr;
}

}  // namespace ranklog::sample::nvml
