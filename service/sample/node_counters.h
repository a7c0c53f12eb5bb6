// Parsers of the files of /proc that describe the whole node. Each ignores lines that it does not
// understand.

#ifndef SERVICE_SAMPLE_NODE_COUNTERS_H_
#define SERVICE_SAMPLE_NODE_COUNTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::sample {

struct Memory {
  uint64_t total = 0;      // bytes
  uint64_t available = 0;  // bytes that programs can get without swapping
};
// /proc/meminfo; nullopt without MemTotal and MemAvailable (Linux 3.14).
absl::optional<Memory> ParseMemory(absl::string_view meminfo);

// Two counters that only grow, unless a device is removed or reset.
struct Traffic {
  std::string device;
  uint64_t in = 0;   // bytes received, or read
  uint64_t out = 0;  // bytes sent, or written
};
// /proc/net/dev, without the loopback interface.
std::vector<Traffic> ParseNetwork(absl::string_view net_dev);

// The count of segments that TCP has sent again, from /proc/net/snmp; nullopt if it is not there.
absl::optional<uint64_t> ParseTcpRetransmits(absl::string_view snmp);

struct Disk {
  std::string number;  // major:minor
  Traffic traffic;
};
// /proc/diskstats, without devices that never read or wrote. Partitions are devices, too.
std::vector<Disk> ParseDisks(absl::string_view diskstats);

// Times in clock ticks.
struct Core {
  int index = 0;
  uint64_t busy = 0;
  uint64_t total = 0;
};
// The online cores in /proc/stat.
std::vector<Core> ParseCores(absl::string_view stat);

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_NODE_COUNTERS_H_
