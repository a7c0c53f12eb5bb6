#include "service/ingest/ingest_credentials.h"

#include <map>
#include <string>
#include <utility>

#include "service/deliver/wandb/base_url.h"

namespace ranklog::ingest {
namespace {

constexpr char kWandbKey[] = "WANDB_API_KEY";

}  // namespace

Credentials IngestCredentials(deliver::CredentialStore* store) {
  return {
      .remember =
          [store](const model::Session& session, const std::map<std::string, std::string>& given) {
            const std::string job = deliver::JobOf(session.stream.project, session.stream.job_id);
            std::map<std::string, std::string> variables = given;
            variables.erase(kWandbKey);
            // An older client sends no variables; then the daemon's variables apply.
            if (!variables.empty()) store->SetVariables(job, std::move(variables));
            const auto key = given.find(kWandbKey);
            if (key != given.end()) {
              // The run's delivery gets the same error and reports it.
              store->Set(job, deliver::wandb::BaseUrlOf(session.settings), key->second)
                  .IgnoreError();
            }
            store->RecordAttach(job);
          },
      .has_wandb =
          [store](const model::Session& session) {
            const absl::Status found =
                store
                    ->Find(deliver::JobOf(session.stream.project, session.stream.job_id),
                           deliver::wandb::BaseUrlOf(session.settings))
                    .status();
            if (found.ok() || absl::IsNotFound(found)) return found.ok();
            // A key, an address or a file of our own that cannot be used still shows that W&B is
            // meant, so the run waits. A netrc may be there for other servers.
            return absl::IsInvalidArgument(found) || store->HasRefusedFile();
          },
  };
}

}  // namespace ranklog::ingest
