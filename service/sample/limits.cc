#include "service/sample/limits.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/sample/fields.h"
#include "service/sample/node_counters.h"
#include "service/sample/process/proc_file.h"

namespace ranklog::sample {
namespace {

constexpr uint64_t kMaxCpu = 1 << 16;

struct CloseCpuDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

// Cores are told apart by the list of their hardware threads, as the SDK does.
int CountCores(const std::string& directory) {
  const std::unique_ptr<DIR, CloseCpuDir> dir(opendir(directory.c_str()));
  if (dir == nullptr) return 0;
  std::set<std::string> cores;
  while (const dirent* const entry = readdir(dir.get())) {
    absl::string_view number = entry->d_name;
    if (!absl::ConsumePrefix(&number, "cpu") || !NumberAt(number).has_value()) continue;
    const std::string topology = absl::StrCat(directory, "/", entry->d_name, "/topology/");
    std::string threads = ReadProcFile(topology + "core_cpus_list");
    // Linux before 5.3.
    if (threads.empty()) threads = ReadProcFile(topology + "thread_siblings_list");
    if (!threads.empty()) cores.insert(std::move(threads));
  }
  return static_cast<int>(cores.size());
}

// The content of cpu.max is a quota and a period, such as "400000 100000", or "max 100000".
absl::optional<double> CpuQuota(absl::string_view cpu_max) {
  const uint64_t quota = TakeNumber(cpu_max);
  const uint64_t period = TakeNumber(cpu_max);
  if (quota == 0 || period == 0) return absl::nullopt;
  return static_cast<double>(quota) / static_cast<double>(period);
}

// Lowers `limits` to those of the group at `directory` and the groups above it.
void LowerToGroups(const std::string& root, std::string directory, const std::string& mount_point,
                   Limits& limits) {
  for (;;) {
    const std::string path = root + directory;
    const absl::optional<uint64_t> bytes = ReadNumber(path + "/memory.max");
    if (bytes.has_value() && *bytes > 0 && *bytes < limits.bytes.value_or(UINT64_MAX)) {
      limits.bytes = bytes;
      limits.memory_current = path + "/memory.current";
    }
    const absl::optional<double> cpus = CpuQuota(ReadProcFile(path + "/cpu.max"));
    if (cpus.has_value()) limits.cpus = std::min(*cpus, limits.cpus.value_or(*cpus));
    if (directory.size() <= mount_point.size()) return;
    directory.resize(directory.rfind('/'));
  }
}

void MarkAllowedCpus(absl::string_view status, std::vector<bool>& cpus) {
  while (!status.empty()) {
    absl::string_view line = TakeLine(status);
    if (TakeField(line) == "Cpus_allowed_list:") return MarkCpus(TakeField(line), cpus);
  }
}

}  // namespace

CpuCounts ReadCpuCounts(const std::string& root) {
  CpuCounts counts;
  counts.logical = static_cast<int>(ParseCores(ReadProcFile(root + "/proc/stat")).size());
  counts.physical = CountCores(root + "/sys/devices/system/cpu");
  if (counts.physical == 0) counts.physical = counts.logical;
  return counts;
}

void MarkCpus(absl::string_view list, std::vector<bool>& cpus) {
  for (const absl::string_view range : absl::StrSplit(list, ',')) {
    const absl::optional<uint64_t> first = NumberAt(range);
    if (!first.has_value()) continue;
    const size_t dash = range.find('-');
    const absl::optional<uint64_t> last =
        dash == absl::string_view::npos ? first : NumberAt(range.substr(dash + 1));
    if (!last.has_value() || *last < *first || *last >= kMaxCpu) continue;
    if (*last >= cpus.size()) cpus.resize(*last + 1);
    for (uint64_t cpu = *first; cpu <= *last; ++cpu) cpus[cpu] = true;
  }
}

Limits ReadLimits(const std::string& root, const std::vector<Mount>& mounts, int logical,
                  absl::Span<const pid_t> pids) {
  Limits limits;
  std::vector<bool> allowed;
  bool grouped = false;
  for (const pid_t pid : pids) {
    const std::string process = absl::StrCat(root, "/proc/", pid);
    MarkAllowedCpus(ReadProcFile(process + "/status"), allowed);
    if (grouped) continue;
    const std::string cgroup = ReadProcFile(process + "/cgroup");
    if (cgroup.empty()) continue;
    grouped = true;
    if (const absl::optional<std::string> directory = CgroupDirectory(mounts, cgroup)) {
      LowerToGroups(root, *directory, CgroupMountPoint(mounts), limits);
    }
  }
  const auto bound = std::count(allowed.begin(), allowed.end(), true);
  if (bound > 0 && (bound < logical || logical == 0)) {
    limits.cpus =
        std::min(static_cast<double>(bound), limits.cpus.value_or(static_cast<double>(bound)));
  }
  return limits;
}

}  // namespace ranklog::sample
