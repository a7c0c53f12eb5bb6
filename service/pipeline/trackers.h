// Joins the delivery loop to the trackers: the one place that knows which there are.

#ifndef SERVICE_PIPELINE_TRACKERS_H_
#define SERVICE_PIPELINE_TRACKERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/deliver/credentials.h"
#include "service/model/session.h"
#include "service/pipeline/deliver_loop.h"

namespace ranklog::pipeline {

struct TrackerOptions {
  // How often rows are posted to Weights & Biases; what the official client does.
  absl::Duration wandb_transmit_interval = absl::Seconds(15);
  std::string wandb_username;  // the person under whom a service account's runs appear
  std::string wandb_user_email;
  bool allow_plain_http = false;  // http:// beyond loopback; see CurlTransport
  // Until then a live run without a key waits quietly for its ranks; of a steady clock.
  absl::Time ranks_return_by = absl::InfinitePast();
  // Which runs are delivered; null: all. Any worker's thread may call it. A run's `local` delivery,
  // which costs nothing, is always made.
  std::function<bool(int64_t run)> wanted;

  // WANDB_USERNAME, WANDB_USER_EMAIL and RANKLOG_ALLOW_HTTP (1 or true). Not thread-safe, as getenv
  // is not.
  static TrackerOptions FromEnvironment();
};

// Workers for DeliverLoop, each with its own reader of `state_dir`; their connections are shared.
// `credentials` outlives them.
absl::StatusOr<std::vector<DeliverLoop::Worker>> MakeTrackerWorkers(
    const std::string& state_dir, const deliver::CredentialStore* credentials,
    const TrackerOptions& options);

// The W&B server that a run with these settings goes to.
std::string WandbBaseUrl(const model::RunSettings& settings);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_TRACKERS_H_
