#include "service/ingest/ingest_credentials.h"

#include <map>
#include <string>
#include <utility>

namespace ranklog::ingest {
namespace {

std::string JobOf(const model::Session& session) {
  return deliver::JobOf(session.stream.project, session.stream.job_id);
}

deliver::Account AccountOf(const deliver::Destination& destination, const model::Session& session) {
  return {.destination = destination,
          .server = destination.AddressOf(session.settings),
          .project = session.stream.project};
}

}  // namespace

Credentials IngestCredentials(deliver::CredentialStore* store) {
  return {
      .remember =
          [store](const model::Session& session, const std::map<std::string, std::string>& given) {
            const std::string job = JobOf(session);
            std::map<std::string, std::string> variables = given;
            for (const auto& destination : deliver::AllDestinations()) {
              deliver::Credential credential =
                  destination->CredentialIn([&](const std::string& name) {
                    const auto found = given.find(name);
                    return found == given.end() ? "" : found->second;
                  });
              for (const auto& [name, value] : destination->VariablesOf(credential)) {
                variables.erase(name);
              }
              for (const std::string& name : destination->words().other_variables) {
                variables.emplace(name, "");  // the daemon may have been started by another job
              }
              // If it cannot be used, the run's delivery gets the same error and reports it.
              store->Set(job, AccountOf(*destination, session), std::move(credential))
                  .IgnoreError();
            }
            store->SetVariables(job, std::move(variables));
            store->RecordAttach(job);
          },
      .usual_destination = [store](const model::Session& session) -> std::string {
        for (const auto& destination : deliver::AllDestinations()) {
          if (KnowsKey(*store, *destination, session)) return destination->kind();
        }
        return "local";
      },
  };
}

bool KnowsKey(const deliver::CredentialStore& store, const deliver::Destination& destination,
              const model::Session& session) {
  const deliver::Account account = AccountOf(destination, session);
  if (account.server.empty() || !destination.NeedsKey()) return false;
  const absl::Status found = store.Find(JobOf(session), account).status();
  if (found.ok() || absl::IsNotFound(found)) return found.ok();
  // A key, an address or a file of our own that cannot be used still shows that the destination is
  // meant, so the run waits. A netrc may be there for other servers.
  return absl::IsInvalidArgument(found) || store.HasRefusedFile();
}

}  // namespace ranklog::ingest
