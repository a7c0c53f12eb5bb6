#include "service/sample/run_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "service/sample/process/proc_file.h"

namespace ranklog::sample {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kGiB = 1 << 30;
// Administrators change limits rarely, and reading them takes longer than the rest of a sample.
constexpr uint32_t kLimitsEvery = 8;
// The values of gpu.process.{i}.
constexpr absl::string_view kProcessValues[] = {
    "gpu",  "memory",     "memoryAllocated",         "memoryAllocatedBytes",
    "temp", "powerWatts", "enforcedPowerLimitWatts", "powerPercent"};

double Percent(double part, double whole) { return part / whole * 100; }

void AddGpus(const NodeReading& reading, const std::vector<const Process*>& trees, Values& values) {
  const auto used_by = [&trees](const GpuReading& gpu) {
    return absl::c_any_of(trees, [&gpu](const Process* process) {
      return absl::c_linear_search(gpu.pids, process->pid);
    });
  };
  for (const GpuReading& gpu : reading.gpus) {
    for (const auto& [name, value] : gpu.values) {
      values.emplace_back(absl::StrCat("gpu.", gpu.index, ".", name), value);
    }
    if (!used_by(gpu)) continue;
    for (const auto& [name, value] : gpu.values) {
      if (!absl::c_linear_search(kProcessValues, name)) continue;
      values.emplace_back(absl::StrCat("gpu.process.", gpu.index, ".", name), value);
    }
  }
}

}  // namespace

Values RunSampler::Sample(const NodeReading& reading, absl::Span<const pid_t> pids) {
  std::vector<pid_t> ranks = Ranks(reading, pids);
  if (ranks != ranks_ || samples_ % kLimitsEvery == 0) {
    const NodeFacts& facts = *reading.facts;
    limits_ = ReadLimits(facts.root, facts.mounts, facts.cpus.logical, ranks);
  }
  ranks_ = std::move(ranks);
  ++samples_;
  const std::vector<const Process*> trees = reading.processes.Trees(ranks_);
  Values values;
  AddCpu(reading, trees, values);
  AddCores(reading, values);
  AddMemory(reading, trees, values);
  AddTraffic(reading, values);
  AddGpus(reading, trees, values);
  last_time_ = reading.time;
  return values;
}

std::vector<pid_t> RunSampler::Ranks(const NodeReading& reading, absl::Span<const pid_t> pids) {
  absl::flat_hash_map<pid_t, uint64_t> starts;
  std::vector<pid_t> ranks;
  for (const pid_t pid : pids) {
    const Process* const process = reading.processes.Find(pid);
    const auto seen = starts_.find(pid);
    if (seen != starts_.end()) starts.insert(*seen);
    if (process == nullptr) continue;
    if (starts.try_emplace(pid, process->start).first->second == process->start) {
      ranks.push_back(pid);
    }
  }
  starts_ = std::move(starts);
  return ranks;
}

void RunSampler::AddCpu(const NodeReading& reading, const std::vector<const Process*>& trees,
                        Values& values) {
  const absl::optional<uint64_t> ticks = cpu_.Since(reading.processes, trees);
  if (trees.empty()) return;
  const double seconds = absl::ToDoubleSeconds(reading.time - last_time_);
  if (ticks.has_value() && seconds > 0) {
    const NodeFacts& facts = *reading.facts;
    const double cpus = limits_.cpus.value_or(std::max(facts.cpus.physical, 1));
    const double used = static_cast<double>(*ticks) / facts.ticks_per_second;
    values.emplace_back("cpu", Percent(used, seconds * cpus));
  }
}

void RunSampler::AddCores(const NodeReading& reading, Values& values) {
  for (const Core& core : reading.cores) {
    // Cores come and go, but keep their order.
    const auto last = absl::c_lower_bound(
        last_cores_, core, [](const Core& a, const Core& b) { return a.index < b.index; });
    if (last == last_cores_.end() || last->index != core.index) continue;
    if (core.total <= last->total || core.busy < last->busy) continue;
    values.emplace_back(absl::StrCat("cpu.", core.index, ".cpu_percent"),
                        Percent(static_cast<double>(core.busy - last->busy),
                                static_cast<double>(core.total - last->total)));
  }
  last_cores_ = reading.cores;
}

void RunSampler::AddMemory(const NodeReading& reading, const std::vector<const Process*>& trees,
                           Values& values) const {
  absl::optional<double> total;
  absl::optional<uint64_t> current;
  if (limits_.bytes.has_value()) current = ReadNumber(limits_.memory_current);
  if (current.has_value()) {
    total = static_cast<double>(*limits_.bytes);
    const uint64_t free = *limits_.bytes - std::min(*current, *limits_.bytes);
    values.emplace_back("memory_percent", Percent(static_cast<double>(*current), *total));
    values.emplace_back("proc.memory.availableMB", static_cast<double>(free) / kMiB);
  } else if (reading.memory.has_value()) {
    total = static_cast<double>(reading.memory->total);
    const auto available = static_cast<double>(reading.memory->available);
    values.emplace_back("memory_percent", Percent(*total - available, *total));
    values.emplace_back("proc.memory.availableMB", available / kMiB);
  }
  if (trees.empty()) return;
  uint64_t pages = 0;
  uint64_t threads = 0;
  for (const Process* const process : trees) {
    pages += process->resident_pages;
    threads += process->threads;
  }
  const double resident =
      static_cast<double>(pages) * static_cast<double>(reading.facts->page_size);
  values.emplace_back("proc.memory.rssMB", resident / kMiB);
  if (total.has_value()) values.emplace_back("proc.memory.percent", Percent(resident, *total));
  values.emplace_back("proc.cpu.threads", static_cast<double>(threads));
}

void RunSampler::AddTraffic(const NodeReading& reading, Values& values) {
  if (reading.network.has_value()) {
    for (const Traffic& interface : *reading.network) network_.Of(interface);
    const Traffic total = network_.Total();
    values.emplace_back("network.sent", static_cast<double>(total.out));
    values.emplace_back("network.recv", static_cast<double>(total.in));
  }
  if (reading.tcp_retransmits.has_value()) {
    const Traffic grown = tcp_.Of({.device = "", .in = 0, .out = *reading.tcp_retransmits});
    values.emplace_back("network.tcpRetransmits", static_cast<double>(grown.out));
  }
  for (const DiskUsage& usage : reading.disk_usage) {
    values.emplace_back(absl::StrCat("disk.", usage.path, ".usagePercent"), usage.percent);
    values.emplace_back(absl::StrCat("disk.", usage.path, ".usageGB"),
                        static_cast<double>(usage.used) / kGiB);
  }
  for (const Traffic& disk : reading.disks) {
    const Traffic grown = disks_.Of(disk);
    values.emplace_back(absl::StrCat("disk.", disk.device, ".in"),
                        static_cast<double>(grown.in) / kMiB);
    values.emplace_back(absl::StrCat("disk.", disk.device, ".out"),
                        static_cast<double>(grown.out) / kMiB);
  }
}

}  // namespace ranklog::sample
