#include "service/ingest/ingest_credentials.h"

#include <map>
#include <string>
#include <utility>

#include "service/pipeline/trackers.h"

namespace ranklog::ingest {
namespace {

constexpr char kWandbKey[] = "WANDB_API_KEY";

}  // namespace

Credentials IngestCredentials(deliver::CredentialStore* store) {
  return {
      .remember =
          [store](const model::Session& session, const std::map<std::string, std::string>& given) {
            std::map<std::string, std::string> variables = given;
            variables.erase(kWandbKey);
            // An older client sends none, and means the daemon's.
            if (!variables.empty()) {
              store->SetVariables(deliver::JobOf(session.stream.project, session.stream.job_id),
                                  std::move(variables));
            }
            auto key = given.find(kWandbKey);
            if (key == given.end()) return;
            store
                ->Set(deliver::JobOf(session.stream.project, session.stream.job_id),
                      pipeline::WandbBaseUrl(session.settings), key->second)
                .IgnoreError();  // the run's delivery finds the same, and says it
          },
      .has_wandb =
          [store](const model::Session& session) {
            const absl::Status found =
                store
                    ->Find(deliver::JobOf(session.stream.project, session.stream.job_id),
                           pipeline::WandbBaseUrl(session.settings))
                    .status();
            // A key or an address that cannot be used was meant all the same: the run waits.
            return found.ok() || absl::IsInvalidArgument(found);
          },
  };
}

}  // namespace ranklog::ingest
