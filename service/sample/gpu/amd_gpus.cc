#include "service/sample/gpu/amd_gpus.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/sample/fields.h"
#include "service/sample/process/proc_file.h"

namespace ranklog::sample {
namespace {

constexpr char kAmdVendor[] = "0x1002";

std::string AmdText(const std::string& path) {
  std::string text = ReadProcFile(path);
  absl::StripAsciiWhitespace(&text);
  return text;
}

struct CloseDrmDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

// The entries of a directory whose names are `prefix` and a number, by number.
std::vector<std::string> Numbered(const std::string& directory, absl::string_view prefix) {
  const std::unique_ptr<DIR, CloseDrmDir> dir(opendir(directory.c_str()));
  std::vector<std::pair<uint64_t, std::string>> found;
  while (const dirent* const entry = dir == nullptr ? nullptr : readdir(dir.get())) {
    absl::string_view number = entry->d_name;
    if (!absl::ConsumePrefix(&number, prefix)) continue;
    const absl::optional<uint64_t> parsed = NumberAt(number);
    if (parsed.has_value() && number == absl::StrCat(*parsed)) {
      found.emplace_back(*parsed, absl::StrCat(directory, "/", entry->d_name));
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

std::unique_ptr<AmdGpus> AmdGpus::Open(const std::string& root) {
  auto gpus = std::make_unique<AmdGpus>();
  for (const std::string& card : Numbered(root + "/sys/class/drm", "card")) {
    const std::string device = card + "/device";
    if (AmdText(device + "/vendor") == kAmdVendor) gpus->gpus_.push_back(Find(device));
  }
  if (gpus->gpus_.empty()) return nullptr;
  return gpus;
}

AmdGpus::Gpu AmdGpus::Find(const std::string& device) {
  Gpu gpu{.device = device, .power = "", .cap = "", .memory_temperature = ""};
  for (const std::string& sensors : Numbered(device + "/hwmon", "hwmon")) {
    gpu.cap = sensors + "/power1_cap";
    for (const char* const name : {"/power1_average", "/power1_input"}) {
      if (access((sensors + name).c_str(), R_OK) == 0 && gpu.power.empty()) {
        gpu.power = sensors + name;
      }
    }
    for (int i = 1; i <= 3; ++i) {  // edge, junction, mem
      const std::string sensor = absl::StrCat(sensors, "/temp", i);
      if (AmdText(sensor + "_label") == "mem") gpu.memory_temperature = sensor + "_input";
    }
  }
  return gpu;
}

std::vector<GpuReading> AmdGpus::Read() {
  std::vector<GpuReading> readings;
  for (const Gpu& gpu : gpus_) {
    GpuReading reading;
    reading.index = static_cast<int>(readings.size());
    const auto number = [](const std::string& path) -> absl::optional<double> {
      const absl::optional<uint64_t> content = path.empty() ? absl::nullopt : ReadNumber(path);
      if (!content.has_value()) return absl::nullopt;
      return static_cast<double>(*content);
    };
    const auto add = [&reading](const char* name, absl::optional<double> value) {
      if (value.has_value()) reading.values.emplace_back(name, *value);
    };
    add("gpu", number(gpu.device + "/gpu_busy_percent"));
    const absl::optional<double> used = number(gpu.device + "/mem_info_vram_used");
    const absl::optional<double> total = number(gpu.device + "/mem_info_vram_total");
    if (used.has_value() && total.value_or(0) > 0) add("memoryAllocated", *used / *total * 100);
    add("memoryReadWriteActivity", number(gpu.device + "/mem_busy_percent"));
    if (const auto degrees = number(gpu.memory_temperature)) add("temp", *degrees / 1000);
    if (const auto power = number(gpu.power)) {
      add("powerWatts", *power / 1e6);
      const absl::optional<double> cap = number(gpu.cap);
      if (cap.value_or(0) > 0) add("powerPercent", *power / *cap * 100);
    }
    readings.push_back(std::move(reading));
  }
  return readings;
}

model::Json AmdGpus::Hardware() {
  model::Json list = model::Json::array();
  for (const Gpu& gpu : gpus_) {
    model::Json facts = model::Json::object();
    facts["id"] = absl::StrCat(list.size());
    const std::pair<const char*, const char*> members[] = {{"uniqueId", "/unique_id"},
                                                           {"vbiosVersion", "/vbios_version"},
                                                           {"series", "/product_name"},
                                                           {"model", "/device"}};
    for (const auto& [member, file] : members) {
      if (std::string text = AmdText(gpu.device + file); !text.empty()) facts[member] = text;
    }
    list.push_back(std::move(facts));
  }
  model::Json hardware = model::Json::object();
  if (list[0].contains("series")) hardware["gpu"] = list[0]["series"];
  hardware["gpu_count"] = gpus_.size();
  hardware["gpu_amd"] = std::move(list);
  return hardware;
}

}  // namespace ranklog::sample
