// How much the traffic of devices has grown since the start of a run.

#ifndef SERVICE_SAMPLE_TRAFFIC_SINCE_H_
#define SERVICE_SAMPLE_TRAFFIC_SINCE_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "service/sample/node_counters.h"

namespace ranklog::sample {

// A device counts from its first call. If its counters are smaller than before, it was reset or
// replaced, and what they show is added.
class TrafficSince {
 public:
  // Returns the growth of the device since its first call.
  Traffic Of(const Traffic& now) {
    auto [found, is_new] = devices_.try_emplace(now.device);
    Device& device = found->second;
    if (!is_new) {
      device.grown.in += now.in >= device.last.in ? now.in - device.last.in : now.in;
      device.grown.out += now.out >= device.last.out ? now.out - device.last.out : now.out;
    }
    device.last = now;
    device.grown.device = now.device;
    return device.grown;
  }

  // Returns the growth of all devices together, also of those that are gone.
  Traffic Total() const {
    Traffic total;
    for (const auto& [name, device] : devices_) {
      total.in += device.grown.in;
      total.out += device.grown.out;
    }
    return total;
  }

 private:
  struct Device {
    Traffic last;
    Traffic grown;
  };
  absl::flat_hash_map<std::string, Device> devices_;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_TRAFFIC_SINCE_H_
