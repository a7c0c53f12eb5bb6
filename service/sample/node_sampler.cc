#include "service/sample/node_sampler.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/sample/gpu/amd_gpus.h"
#include "service/sample/gpu/nvidia_gpus.h"

namespace ranklog::sample {
namespace {

constexpr absl::Duration kHardwareWait = absl::Seconds(10);

std::shared_ptr<const NodeFacts> FactsOf(const std::string& root) {
  auto facts = std::make_shared<NodeFacts>();
  facts->root = root;
  facts->cpus = ReadCpuCounts(root);
  facts->mounts = ParseMounts(ReadProcFile(root + "/proc/self/mountinfo"));
  if (const long ticks = sysconf(_SC_CLK_TCK); ticks > 0) {
    facts->ticks_per_second = static_cast<double>(ticks);
  }
  if (const long size = sysconf(_SC_PAGESIZE); size > 0) {
    facts->page_size = static_cast<uint64_t>(size);
  }
  return facts;
}

// Null if there are no GPUs.
std::unique_ptr<GpuThread> StartGpuThread(const NodeSampler::Options& options) {
  nvml::Library nvml;
  const bool has_nvml = nvml::Load(options.nvml, nvml);
  // Also on a machine without AMD's driver, this costs no more than a look at a directory.
  if (!has_nvml && AmdGpus::Open(options.root) == nullptr) return nullptr;
  return std::make_unique<GpuThread>(
      [has_nvml, nvml, root = options.root]() -> std::unique_ptr<GpuSource> {
        std::unique_ptr<GpuSource> gpus;
        if (has_nvml) gpus = NvidiaGpus::Open(nvml);
        if (gpus == nullptr) gpus = AmdGpus::Open(root);
        return gpus;
      });
}

bool IsPseudoDisk(absl::string_view name) {
  return absl::StartsWith(name, "loop") || absl::StartsWith(name, "ram") ||
         absl::StartsWith(name, "zram");
}

// Whether the mount is on this disk. The number of a file system on several devices, such as btrfs,
// belongs to no device.
bool IsOn(const Mount& mount, const Disk& disk) {
  return mount.number == disk.number ||
         absl::StripPrefix(mount.source, "/dev/") == disk.traffic.device;
}

}  // namespace

NodeSampler::NodeSampler(Options options)
    : options_(std::move(options)),
      facts_(FactsOf(options_.root)),
      meminfo_(options_.root + "/proc/meminfo"),
      net_dev_(options_.root + "/proc/net/dev"),
      snmp_(options_.root + "/proc/net/snmp"),
      diskstats_(options_.root + "/proc/diskstats"),
      stat_(options_.root + "/proc/stat"),
      processes_(options_.root + "/proc"),
      gpus_(StartGpuThread(options_)) {}

NodeReading NodeSampler::Read(absl::Time now) {
  NodeReading reading;
  reading.time = now;
  reading.facts = facts_;
  reading.memory = ParseMemory(meminfo_.Read());
  reading.network = ReadNetwork();
  reading.tcp_retransmits = ParseTcpRetransmits(snmp_.Read());
  reading.disks = ReadDisks();
  reading.disk_usage = ReadDiskUsage();
  if (options_.per_core) reading.cores = ParseCores(stat_.Read());
  reading.processes = processes_.Read();
  if (gpus_ != nullptr) reading.gpus = gpus_->Read(options_.gpu_wait);
  return reading;
}

absl::optional<std::vector<Traffic>> NodeSampler::ReadNetwork() {
  const absl::string_view net_dev = net_dev_.Read();
  if (net_dev.empty()) return absl::nullopt;
  std::vector<Traffic> interfaces = ParseNetwork(net_dev);
  // The traffic of a bond's or a bridge's member is also the bond's or the bridge's.
  const auto is_member = [this](const Traffic& interface) {
    const std::string path =
        absl::StrCat(options_.root, "/sys/class/net/", interface.device, "/master");
    return access(path.c_str(), F_OK) == 0;
  };
  interfaces.erase(std::remove_if(interfaces.begin(), interfaces.end(), is_member),
                   interfaces.end());
  return interfaces;
}

std::vector<Traffic> NodeSampler::ReadDisks() {
  const std::vector<Disk> all = ParseDisks(diskstats_.Read());
  std::vector<Traffic> disks;
  const auto add_if = [&](const auto& wanted) {
    for (const Disk& disk : all) {
      if (wanted(disk)) disks.push_back(disk.traffic);
    }
  };
  std::vector<const Mount*> mounts;
  for (const std::string& path : options_.disk_paths)
    mounts.push_back(MountOf(facts_->mounts, path));
  add_if([&](const Disk& disk) {
    return std::any_of(mounts.begin(), mounts.end(), [&disk](const Mount* mount) {
      return mount != nullptr && IsOn(*mount, disk);
    });
  });
  // In a container, / is an overlay, which names no device. The SDK then samples all, too.
  if (disks.empty()) add_if([](const Disk& disk) { return !IsPseudoDisk(disk.traffic.device); });
  return disks;
}

std::vector<DiskUsage> NodeSampler::ReadDiskUsage() const {
  std::vector<DiskUsage> usage;
  for (const std::string& path : options_.disk_paths) {
    struct statvfs info {};
    if (statvfs((options_.root + path).c_str(), &info) != 0) continue;
    const uint64_t block = info.f_frsize;
    const uint64_t used = info.f_blocks - info.f_bfree;
    const uint64_t usable = used + info.f_bavail;
    usage.push_back(
        {.path = path,
         .total = info.f_blocks * block,
         .used = used * block,
         .percent =
             usable == 0 ? 0 : static_cast<double>(used) / static_cast<double>(usable) * 100});
  }
  return usage;
}

model::Json NodeSampler::Hardware() {
  model::Json hardware = model::Json::object();
  if (facts_->cpus.physical > 0) hardware["cpu_count"] = facts_->cpus.physical;
  if (facts_->cpus.logical > 0) hardware["cpu_count_logical"] = facts_->cpus.logical;
  // Protobuf writes 64-bit integers as strings.
  model::Json disks = model::Json::object();
  for (const DiskUsage& disk : ReadDiskUsage()) {
    disks[disk.path] = {{"total", absl::StrCat(disk.total)}, {"used", absl::StrCat(disk.used)}};
  }
  if (!disks.empty()) hardware["disk"] = std::move(disks);
  if (const auto memory = ParseMemory(meminfo_.Read())) {
    hardware["memory"] = {{"total", absl::StrCat(memory->total)}};
  }
  if (gpus_ != nullptr) {
    const model::Json gpus = gpus_->Hardware(kHardwareWait);
    for (const auto& [member, value] : gpus.items()) hardware[member] = value;
  }
  return hardware;
}

}  // namespace ranklog::sample
