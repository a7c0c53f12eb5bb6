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
          [store](const model::Session& session, const std::map<std::string, std::string>& given) {
            auto key = given.find(kWandbKey);
            if (key == given.end()) return;
            const absl::Status kept =
                store->Set(deliver::JobOf(session.stream.project, session.stream.job_id),
                           pipeline::WandbBaseUrl(session.settings), key->second);
            if (!kept.ok()) spdlog::warn("a rank's credentials: {}", kept.ToString());
          },
      .has_wandb =
          [store](const model::Session& session) {
            return store
                ->Find(deliver::JobOf(session.stream.project, session.stream.job_id),
                       pipeline::WandbBaseUrl(session.settings))
                .ok();
          },
  };
}

}  // namespace ranklog::daemon
