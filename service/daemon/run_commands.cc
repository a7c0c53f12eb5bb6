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

void RunCommands::AddDestination(int64_t run, const std::string& kind,
                                 const std::map<std::string, std::string>& credentials,
                                 ControlService::Done done) {
  const absl::Status can = CheckDestination(run, kind, credentials);
  if (!can.ok()) return done(can);
  parts_.store->Submit({.apply =
                            [run, kind](storage::Store& store) {
                              RETURN_IF_ERROR(store.AddDelivery(run, kind));
                              return store.TryAgain(run, kind);
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

absl::Status RunCommands::CheckDestination(int64_t id, const std::string& kind,
                                           const std::map<std::string, std::string>& given) const {
  const deliver::Destination* const destination = deliver::FindDestination(kind);
  if (destination == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown tracker '", kind, "'; use ", absl::StrJoin(deliver::DestinationKinds(), ", ")));
  }
  ASSIGN_OR_RETURN(const auto reader, storage::StoreReader::Open(parts_.state_dir));
  ASSIGN_OR_RETURN(const model::Run run, reader->GetRun(id));
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader->Streams(id));
  model::Session session;
  if (!streams.empty()) session.stream = streams.front().key;
  session.settings = run.settings;
  ingest::IngestCredentials(parts_.credentials).remember(session, given);
  if (ingest::KnowsKey(*parts_.credentials, *destination, session)) return absl::OkStatus();
  const std::string server = destination->AddressOf(run.settings);
  return absl::FailedPreconditionError(absl::StrCat("the daemon has no API key for ", server,
                                                    "; run ", destination->LoginCommand(server)));
}

}  // namespace ranklog::daemon
