#include "service/daemon/ingest_credentials.h"

#include <spdlog/spdlog.h>

#include <map>

#include "service/pipeline/trackers.h"

namespace ranklog::daemon {
namespace {

constexpr char kWandbKey[] = "WANDB_API_KEY";

}  // namespace

ingest::Credentials IngestCredentials(deliver::CredentialStore* store) {
  return {
      .remember =
          [store](const model::RunSettings& settings,
                  const std::map<std::string, std::string>& given) {
            auto key = given.find(kWandbKey);
            if (key == given.end()) return;
            const absl::Status kept = store->Set(pipeline::WandbBaseUrl(settings), key->second);
            if (!kept.ok()) spdlog::warn("a rank's credentials: {}", kept.ToString());
          },
      .has_wandb =
          [store](const model::RunSettings& settings) {
            return store->Has(pipeline::WandbBaseUrl(settings));
          },
  };
}

}  // namespace ranklog::daemon
