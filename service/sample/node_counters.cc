#include "service/sample/node_counters.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/sample/fields.h"

namespace ranklog::sample {
namespace {

constexpr uint64_t kSector = 512;  // bytes, in /proc/diskstats, whatever the disk's sectors

}  // namespace

absl::optional<Memory> ParseMemory(absl::string_view meminfo) {
  absl::optional<uint64_t> total, available;
  while (!meminfo.empty() && !(total.has_value() && available.has_value())) {
    absl::string_view line = TakeLine(meminfo);
    const absl::string_view name = TakeField(line);
    if (name == "MemTotal:") total = NumberAt(TakeField(line));
    if (name == "MemAvailable:") available = NumberAt(TakeField(line));
  }
  if (!total.has_value() || !available.has_value()) return absl::nullopt;
  if (*total == 0 || *total > UINT64_MAX >> 10) return absl::nullopt;
  return Memory{.total = *total << 10, .available = *available << 10};
}

std::vector<Traffic> ParseNetwork(absl::string_view net_dev) {
  std::vector<Traffic> interfaces;
  while (!net_dev.empty()) {
    absl::string_view line = TakeLine(net_dev);
    const size_t colon = line.rfind(':');  // an alias of an interface has a colon, too
    if (colon == absl::string_view::npos) continue;
    absl::string_view name_part = line.substr(0, colon);
    const absl::string_view name = TakeField(name_part);
    if (name.empty() || name == "lo") continue;
    line.remove_prefix(colon + 1);
    Traffic traffic{.device = std::string(name)};
    traffic.in = TakeNumber(line);
    SkipFields(line, 7);
    const absl::optional<uint64_t> out = NumberAt(TakeField(line));
    if (!out.has_value()) continue;
    traffic.out = *out;
    interfaces.push_back(std::move(traffic));
  }
  return interfaces;
}

absl::optional<uint64_t> ParseTcpRetransmits(absl::string_view snmp) {
  // A line of names, and a line of their values.
  absl::string_view names;
  while (!snmp.empty()) {
    absl::string_view line = TakeLine(snmp);
    if (!absl::ConsumePrefix(&line, "Tcp:")) continue;
    if (names.empty()) {
      names = line;
      continue;
    }
    for (absl::string_view name = TakeField(names); !name.empty(); name = TakeField(names)) {
      const absl::string_view value = TakeField(line);
      if (name == "RetransSegs") return NumberAt(value);
    }
    return absl::nullopt;
  }
  return absl::nullopt;
}

std::vector<Disk> ParseDisks(absl::string_view diskstats) {
  std::vector<Disk> disks;
  while (!diskstats.empty()) {
    absl::string_view line = TakeLine(diskstats);
    const absl::string_view major = TakeField(line);
    const absl::string_view minor = TakeField(line);
    const absl::string_view name = TakeField(line);
    SkipFields(line, 2);
    const uint64_t read = TakeNumber(line);
    SkipFields(line, 3);
    const absl::optional<uint64_t> written = NumberAt(TakeField(line));
    if (!written.has_value() || (read == 0 && *written == 0)) continue;
    disks.push_back(
        {.number = absl::StrCat(major, ":", minor),
         .traffic = {
             .device = std::string(name), .in = read * kSector, .out = *written * kSector}});
  }
  return disks;
}

std::vector<Core> ParseCores(absl::string_view stat) {
  std::vector<Core> cores;
  while (!stat.empty()) {
    absl::string_view line = TakeLine(stat);
    absl::string_view name = TakeField(line);
    if (!absl::ConsumePrefix(&name, "cpu")) break;  // they come first
    const absl::optional<uint64_t> index = NumberAt(name);
    if (!index.has_value()) continue;  // the sum of all
    Core core{.index = static_cast<int>(*index)};
    // user, nice, system, idle, iowait, irq, softirq, steal. `user` contains the guests' time.
    for (int field = 0; field < 8; ++field) {
      const uint64_t ticks = TakeNumber(line);
      core.total += ticks;
      if (field != 3 && field != 4) core.busy += ticks;
    }
    cores.push_back(core);
  }
  return cores;
}

}  // namespace ranklog::sample
