#include "service/daemon/destinations.h"

#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <utility>

#include "service/base/status_macros.h"
#include "service/deliver/curl_transport.h"
#include "service/deliver/local_delivery.h"
#include "service/deliver/wandb/base_url.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::daemon {
namespace {

constexpr char kWandbKey[] = "WANDB_API_KEY";

std::string BaseUrl(const model::RunSettings& settings) {
  return settings.base_url.empty() ? deliver::wandb::kPublicBaseUrl : settings.base_url;
}

}  // namespace

absl::StatusOr<std::vector<pipeline::DeliverLoop::Worker>> MakeWorkers(
    int count, const std::string& state_dir, const deliver::CredentialStore* credentials,
    absl::Duration wandb_transmit_interval) {
  std::vector<pipeline::DeliverLoop::Worker> workers;
  for (int i = 0; i < count; ++i) {
    pipeline::DeliverLoop::Worker worker;
    ASSIGN_OR_RETURN(worker.reader, storage::StoreReader::Open(state_dir));
    ASSIGN_OR_RETURN(std::unique_ptr<deliver::CurlTransport> made,
                     deliver::CurlTransport::Create({}));
    // Shared by the two functions below, and gone with the worker.
    const std::shared_ptr<deliver::CurlTransport> transport = std::move(made);
    worker.cancel = [transport] { transport->Cancel(); };
    worker.make = [transport, credentials, wandb_transmit_interval](
                      const model::Run& run,
                      const model::Delivery& delivery) -> std::unique_ptr<deliver::RunDelivery> {
      if (delivery.kind == "local") return std::make_unique<deliver::LocalDelivery>(delivery);
      if (delivery.kind != deliver::wandb::kKind) return nullptr;
      deliver::wandb::WandbDelivery::Options options;
      options.transmit_interval = wandb_transmit_interval;
      return std::make_unique<deliver::wandb::WandbDelivery>(run, delivery, transport.get(),
                                                             credentials, options);
    };
    workers.push_back(std::move(worker));
  }
  return workers;
}

ingest::Credentials IngestCredentials(deliver::CredentialStore* store) {
  return {
      .remember =
          [store](const model::RunSettings& settings,
                  const std::map<std::string, std::string>& given) {
            auto key = given.find(kWandbKey);
            if (key == given.end()) return;
            const absl::Status kept = store->Set(BaseUrl(settings), key->second);
            if (!kept.ok()) spdlog::warn("a rank's credentials: {}", kept.ToString());
          },
      .has_wandb =
          [store](const model::RunSettings& settings) { return store->Has(BaseUrl(settings)); },
  };
}

}  // namespace ranklog::daemon
