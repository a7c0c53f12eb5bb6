// A libnvidia-ml.so without a GPU. It reads the file that the variable FAKE_NVML_FILE names, at each
// call. Lines:
//
//   gpus N              N devices; default 1
//   fail FUNCTION CODE  the function returns CODE, for all devices
//   fail@I FUNCTION CODE  the same for device I only
//   hang FUNCTION       the function returns only once this line is gone
//   pids I A,B,...      the processes that use device I
//
// Device I (from 0) has 10 * (I + 1) for small figures. The file FAKE_NVML_FILE.calls grows by a
// byte for each call.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "service/sample/gpu/nvml.h"

namespace nvml = ranklog::sample::nvml;

// An opaque type for callers.
struct nvml::DeviceHandle {
  int index;
};
// What the sample counts: the number of samples of its device before it.
struct nvml::GpmSampleHandle {
  int index;
  int number;
};

namespace {

std::string File() {
  const char* const file = getenv("FAKE_NVML_FILE");
  return file == nullptr ? "" : file;
}

struct Setup {
  unsigned gpus = 1;
  nvml::Result result = nvml::kSuccess;
  bool hang = false;
  std::vector<unsigned> pids;
};

// What the file has for a function and a device.
Setup SetupOf(const std::string& function, int device) {
  Setup setup;
  std::ifstream file(File());
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, name;
    words >> what;
    if (what == "gpus") words >> setup.gpus;
    if (what == "pids") {
      int index = -1;
      words >> index;
      std::string pid;
      while (index == device && std::getline(words, pid, ',')) {
        setup.pids.push_back(static_cast<unsigned>(std::stoul(pid)));
      }
    }
    const bool fails = what == "fail" || what == "fail@" + std::to_string(device);
    if (!fails && what != "hang") continue;
    words >> name;
    if (name != function) continue;
    if (fails) words >> setup.result;
    setup.hang |= what == "hang";
  }
  return setup;
}

Setup Enter(const char* function, int device = -1) {
  std::ofstream(File() + ".calls", std::ios::app) << '.';
  Setup setup = SetupOf(function, device);
  while (setup.hang) {
    usleep(1000);
    setup = SetupOf(function, device);
  }
  return setup;
}

nvml::Result Give(const char* function, nvml::Device device, unsigned* to, unsigned value) {
  const Setup setup = Enter(function, device->index);
  if (setup.result == nvml::kSuccess) *to = value;
  return setup.result;
}

unsigned Small(nvml::Device device) { return 10 * static_cast<unsigned>(device->index + 1); }

nvml::Result GiveText(const char* function, nvml::Device device, char* to, unsigned length,
                      const std::string& text) {
  const Setup setup = Enter(function, device->index);
  if (setup.result == nvml::kSuccess) snprintf(to, length, "%s", text.c_str());
  return setup.result;
}

nvml::DeviceHandle devices[64];

}  // namespace

extern "C" {

nvml::Result nvmlInit_v2() { return Enter("nvmlInit_v2").result; }
nvml::Result nvmlShutdown() { return Enter("nvmlShutdown").result; }

nvml::Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12040;
  return Enter("nvmlSystemGetCudaDriverVersion_v2").result;
}

nvml::Result nvmlDeviceGetCount_v2(unsigned* count) {
  const Setup setup = Enter("nvmlDeviceGetCount_v2");
  *count = setup.gpus;
  return setup.result;
}

nvml::Result nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  const Setup setup = Enter("nvmlDeviceGetHandleByIndex_v2", static_cast<int>(index));
  devices[index].index = static_cast<int>(index);
  if (setup.result == nvml::kSuccess) *device = &devices[index];
  return setup.result;
}

nvml::Result nvmlDeviceGetName(nvml::Device device, char* name, unsigned length) {
  return GiveText("nvmlDeviceGetName", device, name, length, "Fake H100");
}
nvml::Result nvmlDeviceGetUUID(nvml::Device device, char* uuid, unsigned length) {
  return GiveText("nvmlDeviceGetUUID", device, uuid, length,
                  "GPU-" + std::to_string(device->index));
}
nvml::Result nvmlDeviceGetNumGpuCores(nvml::Device device, unsigned* cores) {
  return Give("nvmlDeviceGetNumGpuCores", device, cores, 16896);
}
nvml::Result nvmlDeviceGetArchitecture(nvml::Device device, unsigned* architecture) {
  return Give("nvmlDeviceGetArchitecture", device, architecture, 9);
}

nvml::Result nvmlDeviceGetUtilizationRates(nvml::Device device, nvml::Utilization* use) {
  use->memory = 5;
  return Give("nvmlDeviceGetUtilizationRates", device, &use->gpu, Small(device));
}
nvml::Result nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  *memory = {.total = 80ull << 30, .free = 60ull << 30, .used = 20ull << 30};
  return Enter("nvmlDeviceGetMemoryInfo", device->index).result;
}
nvml::Result nvmlDeviceGetTemperature(nvml::Device device, int, unsigned* celsius) {
  return Give("nvmlDeviceGetTemperature", device, celsius, 20 + Small(device));
}
nvml::Result nvmlDeviceGetPowerUsage(nvml::Device device, unsigned* milliwatts) {
  return Give("nvmlDeviceGetPowerUsage", device, milliwatts, 350500);
}
nvml::Result nvmlDeviceGetEnforcedPowerLimit(nvml::Device device, unsigned* milliwatts) {
  return Give("nvmlDeviceGetEnforcedPowerLimit", device, milliwatts, 701000);
}
nvml::Result nvmlDeviceGetClockInfo(nvml::Device device, int type, unsigned* mhz) {
  return Give("nvmlDeviceGetClockInfo", device, mhz, type == nvml::kSmClock ? 1980 : 2619);
}
nvml::Result nvmlDeviceGetMemoryErrorCounter(nvml::Device device, int type, int, int,
                                             unsigned long long* count) {
  *count = type == nvml::kCorrected ? 3 : 1;
  return Enter("nvmlDeviceGetMemoryErrorCounter", device->index).result;
}
nvml::Result nvmlDeviceGetFanSpeed(nvml::Device device, unsigned* percent) {
  return Give("nvmlDeviceGetFanSpeed", device, percent, 33);
}

nvml::Result nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device device, unsigned* count,
                                                     nvml::ProcessInfo* infos) {
  const Setup setup = Enter("nvmlDeviceGetComputeRunningProcesses_v3", device->index);
  const unsigned room = *count;
  *count = static_cast<unsigned>(setup.pids.size());
  if (setup.result != nvml::kSuccess) return setup.result;
  if (room < setup.pids.size()) return nvml::kInsufficientSize;
  for (size_t i = 0; i < setup.pids.size(); ++i) infos[i] = {setup.pids[i], 1 << 20, 0, 0};
  return nvml::kSuccess;
}

nvml::Result nvmlGpmQueryDeviceSupport(nvml::Device device, nvml::GpmSupport* support) {
  return Give("nvmlGpmQueryDeviceSupport", device, &support->is_supported, 1);
}
nvml::Result nvmlGpmSampleAlloc(nvml::GpmSample* sample) {
  *sample = new nvml::GpmSampleHandle{-1, 0};
  return Enter("nvmlGpmSampleAlloc").result;
}
nvml::Result nvmlGpmSampleFree(nvml::GpmSample sample) {
  delete sample;
  return Enter("nvmlGpmSampleFree").result;
}
nvml::Result nvmlGpmSampleGet(nvml::Device device, nvml::GpmSample sample) {
  static int number = 0;
  *sample = {.index = device->index, .number = ++number};
  return Enter("nvmlGpmSampleGet", device->index).result;
}
// Metrics from 60 on are not supported. The value of another metric is its id, if the samples are
// of one device and in their order.
nvml::Result nvmlGpmMetricsGet(nvml::GpmMetrics* metrics) {
  const nvml::GpmSampleHandle& first = *metrics->first;
  const nvml::GpmSampleHandle& second = *metrics->second;
  if (metrics->version != 1) return 25;
  if (first.index != second.index || first.number >= second.number) return 2;
  for (unsigned i = 0; i < metrics->count; ++i) {
    nvml::GpmMetric& metric = metrics->metrics[i];
    metric.result = metric.id >= 60 ? nvml::kNotSupported : nvml::kSuccess;
    metric.value = metric.id;
  }
  return Enter("nvmlGpmMetricsGet").result;
}

}  // extern "C"
