#include "service/pipeline/delivery/trackers.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/deliver/circuit_breaker.h"
#include "service/deliver/curl_transport.h"
#include "service/deliver/local_delivery.h"
#include "service/deliver/transport_pool.h"
#include "service/deliver/wandb/base_url.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::pipeline {
namespace {

// Concurrent requests; at most three to one server, so that one remains if two servers hang.
constexpr int kWorkers = 5;

}  // namespace

TrackerOptions TrackerOptions::FromEnvironment() {
  TrackerOptions options;
  options.wandb_username = EnvironmentVariable("WANDB_USERNAME");
  options.wandb_user_email = EnvironmentVariable("WANDB_USER_EMAIL");
  const std::string allow_http = EnvironmentVariable("RANKLOG_ALLOW_HTTP");
  options.allow_plain_http = allow_http == "1" || absl::EqualsIgnoreCase(allow_http, "true");
  return options;
}

absl::StatusOr<std::vector<DeliverLoop::Worker>> MakeTrackerWorkers(
    const std::string& state_dir, const deliver::CredentialStore* credentials,
    const TrackerOptions& options) {
  deliver::CurlTransport::Options transport_options;
  transport_options.allow_plain_http = options.allow_plain_http;
  deliver::wandb::WandbDelivery::Options wandb;
  wandb.transmit_interval = options.wandb_transmit_interval;
  wandb.username = options.wandb_username;
  wandb.user_email = options.wandb_user_email;
  wandb.ranks_return_by = options.ranks_return_by;

  // Shared by the functions below; destroyed with the last worker.
  struct Shared {
    deliver::TransportPool transport;
    deliver::CircuitBreakers breakers;
  };
  std::vector<std::unique_ptr<deliver::Transport>> transports;
  for (int i = 0; i < kWorkers; ++i) {
    ASSIGN_OR_RETURN(transports.emplace_back(), deliver::CurlTransport::Create(transport_options));
  }
  const std::shared_ptr<Shared> shared(
      new Shared{deliver::TransportPool(std::move(transports)),
                 deliver::CircuitBreakers(wandb.backoff, SteadyNow)});

  std::vector<DeliverLoop::Worker> workers;
  for (int i = 0; i < kWorkers; ++i) {
    DeliverLoop::Worker worker;
    ASSIGN_OR_RETURN(worker.reader, storage::StoreReader::Open(state_dir));
    worker.cancel = [shared] { shared->transport.Cancel(); };
    worker.make = [shared, credentials, wandb, wanted = options.wanted](
                      const model::Run& run,
                      const model::Delivery& delivery) -> std::unique_ptr<deliver::RunDelivery> {
      if (delivery.kind == "local") return std::make_unique<deliver::LocalDelivery>(delivery);
      if (delivery.kind != deliver::wandb::kKind) return nullptr;
      if (wanted != nullptr && !wanted(run.id)) return nullptr;
      return std::make_unique<deliver::wandb::WandbDelivery>(run, delivery, &shared->transport,
                                                             &shared->breakers, credentials, wandb);
    };
    workers.push_back(std::move(worker));
  }
  return workers;
}

}  // namespace ranklog::pipeline
