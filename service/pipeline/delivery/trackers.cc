#include "service/pipeline/delivery/trackers.h"

#include <memory>
#include <utility>

#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/circuit_breaker.h"
#include "service/deliver/http/curl_transport.h"
#include "service/deliver/http/transport_pool.h"
#include "service/deliver/tracker/local_delivery.h"
#include "service/storage/staged_files.h"

namespace ranklog::pipeline {
namespace {

// Concurrent requests; at most three to one server, so that one remains if two servers hang.
constexpr int kWorkers = 5;

}  // namespace

absl::StatusOr<std::vector<DeliverLoop::Worker>> MakeTrackerWorkers(
    const std::string& state_dir, const deliver::CredentialStore* credentials,
    const TrackerOptions& options) {
  // Shared by the functions below; destroyed with the last worker.
  struct Shared {
    deliver::TransportPool transport;
    deliver::CircuitBreakers breakers;
  };
  const auto curl = deliver::CurlTransport::Options::FromEnvironment();
  std::vector<std::unique_ptr<deliver::Transport>> transports;
  for (int i = 0; i < kWorkers; ++i) {
    ASSIGN_OR_RETURN(transports.emplace_back(), deliver::CurlTransport::Create(curl));
  }
  const std::shared_ptr<Shared> shared(
      new Shared{deliver::TransportPool(std::move(transports)),
                 deliver::CircuitBreakers(deliver::Backoff::Options(), SteadyNow)});

  const deliver::DeliveryParts parts = {.transport = &shared->transport,
                                        .breakers = &shared->breakers,
                                        .credentials = credentials,
                                        .transmit_interval = options.transmit_interval,
                                        .ranks_return_by = options.ranks_return_by,
                                        .content_dir = storage::ContentDirOf(state_dir)};

  std::vector<DeliverLoop::Worker> workers;
  for (int i = 0; i < kWorkers; ++i) {
    DeliverLoop::Worker worker;
    ASSIGN_OR_RETURN(worker.reader, storage::StoreReader::Open(state_dir));
    worker.cancel = [shared] { shared->transport.Cancel(); };
    worker.make = [shared, parts, wanted = options.wanted](
                      const model::Run& run,
                      const model::Delivery& delivery) -> std::unique_ptr<deliver::RunDelivery> {
      if (delivery.kind == "local") return std::make_unique<deliver::LocalDelivery>(delivery);
      const deliver::Destination* const destination = deliver::FindDestination(delivery.kind);
      if (destination == nullptr || (wanted != nullptr && !wanted(run.id))) return nullptr;
      return destination->Deliver(run, delivery, parts);
    };
    workers.push_back(std::move(worker));
  }
  return workers;
}

}  // namespace ranklog::pipeline
