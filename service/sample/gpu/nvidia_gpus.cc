#include "service/sample/gpu/nvidia_gpus.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ranklog::sample {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr unsigned kMaxGpus = 256;           // more is an error of the library
constexpr unsigned kMaxGpuProcesses = 4096;  // more is an error of the library

struct GpmName {
  unsigned id;
  const char* name;
  double unit;  // NVML gives rates in MiB per second
};
constexpr GpmName kGpmNames[] = {
    {2, "smActive", 1},
    {3, "smOccupancy", 1},
    {5, "pipeTensorActive", 1},
    {10, "dramActive", 1},
    {11, "pipeFp64Active", 1},
    {12, "pipeFp32Active", 1},
    {13, "pipeFp16Active", 1},
    {7, "pipeTensorHmmaActive", 1},
    {20, "pcieTxBytes", kMebibyte},
    {21, "pcieRxBytes", kMebibyte},
    {61, "nvlinkTxBytes", kMebibyte},
    {60, "nvlinkRxBytes", kMebibyte},
};

const char* ArchitectureName(unsigned architecture) {
  switch (architecture) {
    case 2:
      return "Kepler";
    case 3:
      return "Maxwell";
    case 4:
      return "Pascal";
    case 5:
      return "Volta";
    case 6:
      return "Turing";
    case 7:
      return "Ampere";
    case 8:
      return "Ada";
    case 9:
      return "Hopper";
    case 10:
      return "Blackwell";
    case 13:
      return "Rubin";
    default:
      return nullptr;
  }
}

}  // namespace

enum NvidiaGpus::Quantity : uint32_t {
  kUse = 1 << 0,
  kMemory = 1 << 1,
  kTemperature = 1 << 2,
  kPower = 1 << 3,
  kPowerLimit = 1 << 4,
  kSmClock = 1 << 5,
  kMemoryClock = 1 << 6,
  kCorrectedErrors = 1 << 7,
  kUncorrectedErrors = 1 << 8,
  kFan = 1 << 9,
  kProcesses = 1 << 10,
  kCounters = 1 << 11,
};

std::unique_ptr<NvidiaGpus> NvidiaGpus::Open(const nvml::Library& library) {
  if (nvml::Call(library.Init) != nvml::kSuccess) return nullptr;
  std::unique_ptr<NvidiaGpus> gpus(new NvidiaGpus(library));  // shuts down in its destructor
  unsigned count = 0;
  if (nvml::Call(library.DeviceCount, &count) != nvml::kSuccess) return nullptr;
  if (count == 0 || count > kMaxGpus) return nullptr;
  gpus->gpus_.resize(count);
  for (unsigned i = 0; i < count; ++i) gpus->gpus_[i].index = static_cast<int>(i);
  return gpus;
}

NvidiaGpus::~NvidiaGpus() {
  for (const Gpu& gpu : gpus_) {
    for (const nvml::GpmSample sample : {gpu.last, gpu.next}) {
      if (sample != nullptr) nvml::Call(library_.GpmSampleFree, sample);
    }
  }
  nvml::Call(library_.Shutdown);
}

template <typename Function, typename... Arguments>
bool NvidiaGpus::Ask(Gpu& gpu, Quantity quantity, Function function, Arguments... arguments) {
  if (gpu.lost || (gpu.unsupported & quantity) != 0) return false;
  const nvml::Result result = nvml::Call(function, gpu.device, arguments...);
  if (result == nvml::kNotSupported || result == nvml::kFunctionNotFound) {
    gpu.unsupported |= quantity;
  }
  gpu.lost = result == nvml::kGpuIsLost || result == nvml::kResetRequired;
  return result == nvml::kSuccess;
}

std::vector<GpuReading> NvidiaGpus::Read() {
  std::vector<GpuReading> readings;
  for (Gpu& gpu : gpus_) {
    gpu.lost = gpu.device == nullptr &&
               nvml::Call(library_.DeviceByIndex, static_cast<unsigned>(gpu.index), &gpu.device) !=
                   nvml::kSuccess;
    if (gpu.lost) gpu.device = nullptr;
    GpuReading reading;
    reading.index = gpu.index;
    ReadUse(gpu, reading.values);
    ReadPower(gpu, reading.values);
    ReadClocks(gpu, reading.values);
    ReadErrors(gpu, reading.values);
    ReadCounters(gpu, reading.values);
    reading.pids = ReadProcesses(gpu);
    readings.push_back(std::move(reading));
  }
  return readings;
}

void NvidiaGpus::ReadUse(Gpu& gpu, Values& values) {
  nvml::Utilization use{};
  if (Ask(gpu, kUse, library_.UtilizationRates, &use)) {
    values.emplace_back("gpu", use.gpu);
    values.emplace_back("memory", use.memory);
  }
  nvml::Memory memory{};
  if (Ask(gpu, kMemory, library_.MemoryInfo, &memory) && memory.total > 0) {
    const auto used = static_cast<double>(memory.used);
    values.emplace_back("memoryAllocated", used / static_cast<double>(memory.total) * 100);
    values.emplace_back("memoryAllocatedBytes", used);
  }
  unsigned celsius = 0;
  if (Ask(gpu, kTemperature, library_.Temperature, nvml::kGpuSensor, &celsius)) {
    values.emplace_back("temp", celsius);
  }
}

void NvidiaGpus::ReadPower(Gpu& gpu, Values& values) {
  unsigned milliwatts = 0;
  unsigned limit = 0;
  if (!Ask(gpu, kPower, library_.PowerUsage, &milliwatts)) return;
  values.emplace_back("powerWatts", milliwatts / 1000.0);
  if (!Ask(gpu, kPowerLimit, library_.PowerLimit, &limit) || limit == 0) return;
  values.emplace_back("enforcedPowerLimitWatts", limit / 1000.0);
  values.emplace_back("powerPercent", 100.0 * milliwatts / limit);
}

void NvidiaGpus::ReadClocks(Gpu& gpu, Values& values) {
  unsigned mhz = 0;
  if (Ask(gpu, kSmClock, library_.Clock, nvml::kSmClock, &mhz)) {
    values.emplace_back("smClock", mhz);
  }
  if (Ask(gpu, kMemoryClock, library_.Clock, nvml::kMemoryClock, &mhz)) {
    values.emplace_back("memoryClock", mhz);
  }
}

void NvidiaGpus::ReadErrors(Gpu& gpu, Values& values) {
  unsigned long long errors = 0;
  if (Ask(gpu, kCorrectedErrors, library_.MemoryErrors, nvml::kCorrected, nvml::kVolatileCounter,
          nvml::kDeviceMemory, &errors)) {
    values.emplace_back("correctedMemoryErrors", static_cast<double>(errors));
  }
  if (Ask(gpu, kUncorrectedErrors, library_.MemoryErrors, nvml::kUncorrected,
          nvml::kVolatileCounter, nvml::kDeviceMemory, &errors)) {
    values.emplace_back("uncorrectedMemoryErrors", static_cast<double>(errors));
  }
  unsigned fan = 0;
  if (Ask(gpu, kFan, library_.FanSpeed, &fan)) values.emplace_back("fanSpeed", fan);
}

void NvidiaGpus::ReadCounters(Gpu& gpu, Values& values) {
  if (gpu.lost || (gpu.unsupported & kCounters) != 0) return;
  if (gpu.next == nullptr) {
    nvml::GpmSupport support{.version = nvml::kGpmVersion, .is_supported = 0};
    if (!Ask(gpu, kCounters, library_.GpmQuerySupport, &support)) return;
    if (support.is_supported == 0 ||
        nvml::Call(library_.GpmSampleAlloc, &gpu.last) != nvml::kSuccess ||
        nvml::Call(library_.GpmSampleAlloc, &gpu.next) != nvml::kSuccess) {
      gpu.unsupported |= kCounters;
      return;
    }
  }
  if (!Ask(gpu, kCounters, library_.GpmSampleGet, gpu.next)) {
    gpu.has_last = false;
    return;
  }
  if (gpu.has_last) {
    const auto metrics = std::make_unique<nvml::GpmMetrics>();
    metrics->version = nvml::kGpmVersion;
    metrics->first = gpu.last;
    metrics->second = gpu.next;
    for (const GpmName& name : kGpmNames) metrics->metrics[metrics->count++].id = name.id;
    if (nvml::Call(library_.GpmMetricsGet, metrics.get()) == nvml::kSuccess) {
      for (size_t i = 0; i < std::size(kGpmNames); ++i) {
        const nvml::GpmMetric& metric = metrics->metrics[i];
        const double value = metric.value * kGpmNames[i].unit;
        if (metric.result != nvml::kSuccess || !std::isfinite(value)) continue;
        values.emplace_back(kGpmNames[i].name, value);
      }
    }
  }
  std::swap(gpu.last, gpu.next);
  gpu.has_last = true;
}

std::vector<pid_t> NvidiaGpus::ReadProcesses(Gpu& gpu) {
  std::vector<nvml::ProcessInfo> infos(64);
  auto count = static_cast<unsigned>(infos.size());
  nvml::Result result = nvml::kSuccess;
  // `count` becomes the number of processes, also if the array is too small.
  const auto ask = [&] {
    return Ask(gpu, kProcesses, [&](nvml::Device device) {
      result = nvml::Call(library_.ComputeProcesses, device, &count, infos.data());
      return result;
    });
  };
  bool read = ask();
  if (result == nvml::kInsufficientSize && count <= kMaxGpuProcesses) {
    infos.resize(count + 16);  // more may have started
    count = static_cast<unsigned>(infos.size());
    read = ask();
  }
  std::vector<pid_t> pids;
  for (size_t i = 0; read && i < count && i < infos.size(); ++i) {
    pids.push_back(static_cast<pid_t>(infos[i].pid));
  }
  return pids;
}

model::Json NvidiaGpus::Describe(nvml::Device gpu) const {
  model::Json facts = model::Json::object();
  char text[128] = {};  // NVML needs at most 96 bytes for both
  if (nvml::Call(library_.Name, gpu, text, unsigned{sizeof text - 1}) == nvml::kSuccess) {
    facts["name"] = text;
  }
  nvml::Memory memory{};
  if (nvml::Call(library_.MemoryInfo, gpu, &memory) == nvml::kSuccess) {
    facts["memoryTotal"] = absl::StrCat(memory.total);
  }
  unsigned number = 0;
  if (nvml::Call(library_.Cores, gpu, &number) == nvml::kSuccess) facts["cudaCores"] = number;
  if (nvml::Call(library_.Architecture, gpu, &number) == nvml::kSuccess) {
    if (const char* const name = ArchitectureName(number)) facts["architecture"] = name;
  }
  if (nvml::Call(library_.Uuid, gpu, text, unsigned{sizeof text - 1}) == nvml::kSuccess) {
    facts["uuid"] = text;
  }
  return facts;
}

model::Json NvidiaGpus::Hardware() {
  model::Json hardware = model::Json::object();
  model::Json list = model::Json::array();
  for (const Gpu& gpu : gpus_) {
    nvml::Device device = nullptr;
    const nvml::Result found =
        nvml::Call(library_.DeviceByIndex, static_cast<unsigned>(gpu.index), &device);
    list.push_back(found == nvml::kSuccess ? Describe(device) : model::Json::object());
  }
  if (list[0].contains("name")) hardware["gpu"] = list[0]["name"];
  hardware["gpu_count"] = gpus_.size();
  hardware["gpu_nvidia"] = std::move(list);
  int version = 0;  // 12040: 12.4
  if (nvml::Call(library_.CudaDriverVersion, &version) == nvml::kSuccess) {
    hardware["cudaVersion"] = absl::StrCat(version / 1000, ".", version % 1000 / 10);
  }
  return hardware;
}

}  // namespace ranklog::sample
