#include "service/daemon/run_commands.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/deliver/destination.h"
#include "service/ingest/ingest_credentials.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"

namespace ranklog::daemon {
namespace {

// A job's server does not change here, because a request to it may be under way. Without one, there
// is none.
absl::Status SetDestination(const ControlService::NewDestination& to, storage::Store& store) {
  const deliver::Destination& destination = *deliver::FindDestination(to.kind);
  const auto url = to.settings.find(destination.words().url_setting);
  if (url != to.settings.end()) {
    ASSIGN_OR_RETURN(const model::RunSettings settings, store.SettingsOf(to.run));
    const std::string address = destination.AddressOf(settings);
    if (!address.empty() && destination.ServerOf(settings).value_or("") != url->second) {
      return absl::FailedPreconditionError(
          absl::StrCat("the run goes to ", address, ", which cannot change while a daemon runs"));
    }
  }
  return store.SetDestination(to.run, to.kind, to.settings);
}

}  // namespace

void RunCommands::AddDestination(ControlService::NewDestination to, ControlService::Done done) {
  const absl::Status can = CheckDestination(to);
  if (!can.ok()) return done(can);
  const int64_t run = to.run;
  parts_.store->Submit({.apply =
                            [to = std::move(to)](storage::Store& store) {
                              if (!to.settings.empty()) RETURN_IF_ERROR(SetDestination(to, store));
                              RETURN_IF_ERROR(store.AddDelivery(to.run, to.kind));
                              return store.TryAgain(to.run, to.kind);
                            },
                        .done =
                            [this, run, done = std::move(done)](absl::Status status) mutable {
                              if (status.ok()) parts_.deliver->AddRun(run);
                              done(std::move(status));
                            },
                        .urgent = true});
}

void RunCommands::RemoveRun(int64_t id, storage::Removal removal, ControlService::Done done) {
  const auto reader = storage::StoreReader::Open(parts_.state_dir);
  if (!reader.ok()) return done(reader.status());
  const absl::StatusOr<model::Run> run = (*reader)->GetRun(id);
  if (!run.ok()) return done(run.status());
  parts_.store->Submit(
      {.apply =
           [id, removal](storage::Store& store) {
             return store.RemoveRun(id, absl::ToUnixMicros(absl::Now()), removal);
           },
       .done =
           [this, run = *run, removal, done = std::move(done)](absl::Status status) mutable {
             if (status.ok()) {
               spdlog::info("run {}: removed with {} rows by `ranklog {}`", run.run_id, run.rows,
                            removal == storage::Removal::kDelivered ? "prune" : "rm");
               parts_.deliver->OnRemoved(run.id);
               parts_.retention->OnRemoved(run.rows);
               parts_.notices->Forget(run.id);
             }
             done(std::move(status));
           },
       .urgent = true});
}

absl::Status RunCommands::CheckDestination(ControlService::NewDestination& to) const {
  const deliver::Destination* const destination = deliver::FindDestination(to.kind);
  if (destination == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown tracker '", to.kind, "'; use ", absl::StrJoin(deliver::DestinationKinds(), ", ")));
  }
  std::vector<std::string> mistakes;
  const std::string& url_setting = destination->words().url_setting;
  std::map<std::string, std::string> settings = destination->SettingsOf(to.settings, &mistakes);
  if (const auto url = settings.find(url_setting); url != settings.end()) {
    ASSIGN_OR_RETURN(url->second, destination->CheckUrl(url->second));
  }
  // An empty value counts, too: it removes the setting.
  for (const auto& [name, value] : to.settings) {
    if (value.empty() && name != url_setting) settings[name] = value;
  }
  if (!mistakes.empty()) return absl::InvalidArgumentError(absl::StrJoin(mistakes, "; "));
  to.settings = std::move(settings);
  if (!destination->NeedsKey()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto reader, storage::StoreReader::Open(parts_.state_dir));
  ASSIGN_OR_RETURN(const model::Run run, reader->GetRun(to.run));
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader->Streams(to.run));
  model::Session session;
  if (!streams.empty()) session.stream = streams.front().key;
  session.settings = run.settings;
  for (const auto& [name, value] : to.settings) {
    session.settings.destination_settings[to.kind][name] = value;
  }
  ingest::IngestCredentials(parts_.credentials).remember(session, to.credentials);
  if (ingest::KnowsKey(*parts_.credentials, *destination, session)) return absl::OkStatus();
  const std::string server = destination->AddressOf(session.settings);
  return absl::FailedPreconditionError(absl::StrCat("the daemon has no API key for ", server,
                                                    "; run ", destination->LoginCommand(server)));
}

}  // namespace ranklog::daemon
