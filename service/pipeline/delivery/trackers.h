// Connects the delivery loop to the trackers.

#ifndef SERVICE_PIPELINE_DELIVERY_TRACKERS_H_
#define SERVICE_PIPELINE_DELIVERY_TRACKERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/model/session.h"
#include "service/pipeline/delivery/deliver_loop.h"

namespace ranklog::pipeline {

struct TrackerOptions {
  absl::Duration transmit_interval = deliver::DeliveryParts().transmit_interval;
  // Until then, a live run without a key waits for its ranks without an error; a time of a steady
  // clock.
  absl::Time ranks_return_by = absl::InfinitePast();
  // Selects the runs to deliver; null: all. May be called on any worker's thread. A run's `local`
  // delivery, which costs nothing, is always made.
  std::function<bool(int64_t run)> wanted;
};

// Workers for DeliverLoop, each with its own reader of `state_dir`. They share their connections.
// Reads the environment (CurlTransport::Options).
// `credentials` must outlive them.
absl::StatusOr<std::vector<DeliverLoop::Worker>> MakeTrackerWorkers(
    const std::string& state_dir, const deliver::CredentialStore* credentials,
    const TrackerOptions& options);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_TRACKERS_H_
