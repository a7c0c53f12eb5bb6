#include "service/cli/node/sync_pipeline.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/cli/node/daemon_status.h"
#include "service/deliver/advice.h"
#include "service/deliver/http/curl_transport.h"
#include "service/deliver/http/retry.h"
#include "service/pipeline/delivery/crashed_deliveries.h"
#include "service/pipeline/delivery/trackers.h"

namespace ranklog::cli {

absl::StatusOr<deliver::Credential> FindKey(const deliver::CredentialStore& credentials,
                                            const std::string& state_dir, const model::Run& run,
                                            const std::string& kind) {
  const deliver::Destination* const destination = deliver::FindDestination(kind);
  if (destination == nullptr) return deliver::Credential();
  const absl::StatusOr<std::string> server = destination->ServerOf(run.settings);
  if (!server.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(run.run_id, ": ", server.status().message(), deliver::kToContinue,
                     deliver::WithRun(deliver::kCorrectAddress, run.run_id)));
  }
  // No rank sends a key here, so the job does not matter.
  auto key = credentials.Find(
      "", {.destination = *destination, .server = *server, .project = run.project});
  if (key.ok()) return key;
  const std::string& other_login = destination->words().other_login;
  return absl::FailedPreconditionError(absl::StrCat(
      "no usable API key for ", *server, ": ",
      destination->WithLoginCommand(key.status(), *server).message(), "\nor set ",
      destination->words().key_variable, "; or ", other_login, other_login.empty() ? "" : "; or ",
      "write the line\n  machine HOST login user password KEY\nto ", state_dir,
      "/credentials, readable only by you (chmod 600)"));
}

absl::Status AskDaemonToDeliver(const Globals& globals, const std::string& state_dir,
                                const model::Run& run, const std::string& kind, bool with_key,
                                const std::map<std::string, std::string>& settings) {
  ASSIGN_OR_RETURN(const DaemonStatus daemon, FindHolder(state_dir, globals.address));
  const deliver::CredentialStore keys(
      deliver::CredentialStore::Options::FromEnvironment(state_dir));
  const absl::StatusOr<deliver::Credential> key = FindKey(keys, state_dir, run, kind);
  std::map<std::string, std::string> credentials;
  const deliver::Destination* const destination = deliver::FindDestination(kind);
  if (key.ok() && with_key && destination != nullptr) credentials = destination->VariablesOf(*key);
  if (deliver::CurlTransport::Options::FromEnvironment().allow_plain_http) {
    credentials["RANKLOG_ALLOW_HTTP"] = "1";
  }
  const absl::Status added = AddDestination(daemon, run.id, kind, credentials, settings);
  if (absl::IsFailedPrecondition(added) && !key.ok()) return key.status();
  return added;
}

void LogToStderr() {
  // Answers of trackers are logged as warnings. The caller reads them from the store and prints
  // them itself.
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "ranklog", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("ranklog: %v");
  spdlog::set_level(spdlog::level::err);
}

absl::StatusOr<std::unique_ptr<SyncPipeline>> SyncPipeline::Open(
    const std::string& state_dir, const std::string& credentials_dir) {
  LogToStderr();
  ASSIGN_OR_RETURN(std::unique_ptr<storage::Store> store, storage::Store::Open(state_dir, {}));
  pipeline::CountCrashedDeliveries(state_dir, *store);
  return std::unique_ptr<SyncPipeline>(new SyncPipeline(
      state_dir, credentials_dir.empty() ? state_dir : credentials_dir, std::move(store)));
}

SyncPipeline::SyncPipeline(std::string state_dir, const std::string& credentials_dir,
                           std::unique_ptr<storage::Store> store)
    : state_dir_(std::move(state_dir)),
      credentials_(deliver::CredentialStore::Options::FromEnvironment(credentials_dir)),
      unused_(std::move(store)) {}

// Writes of the aggregate loop call the delivery loop, and the store loop answers both. So the
// store loop ends before they are destroyed.
SyncPipeline::~SyncPipeline() {
  if (store_ == nullptr) return;
  store_->StopRetrying();  // otherwise a store that cannot be written would block them forever
  if (aggregate_ != nullptr) aggregate_->Stop();
  if (deliver_ != nullptr) deliver_->Stop();
  store_->Stop();
}

absl::Status SyncPipeline::AddDestination(int64_t run, const std::string& kind) {
  return WriteNow([&](storage::Store& store) {
    return store.AddDelivery(run, absl::string_view(kind.data(), kind.size()));
  });
}

absl::Status SyncPipeline::SetDestination(int64_t run, const std::string& kind,
                                          const std::map<std::string, std::string>& settings) {
  return WriteNow([&](storage::Store& store) { return store.SetDestination(run, kind, settings); });
}

absl::Status SyncPipeline::SetAddress(const std::vector<model::Run>& runs,
                                      const deliver::Destination& destination,
                                      const std::string& url) {
  ASSIGN_OR_RETURN(const std::string checked, destination.CheckUrl(url));
  return WriteNow([&](storage::Store& store) {
    for (const model::Run& run : runs) {
      if (destination.ServerOf(run.settings).value_or("") == checked) continue;
      const absl::Status set = store.SetDestination(run.id, destination.kind(),
                                                    {{destination.words().url_setting, checked}});
      if (set.ok()) continue;
      return absl::Status(
          set.code(),
          absl::StrCat("the address of run ", Printable(run.run_id), " stays ",
                       Printable(destination.AddressOf(run.settings)), ": ", set.message(),
                       runs.size() > 1 ? "; no run's address was changed" : ""));
    }
    return absl::OkStatus();
  });
}

absl::Status SyncPipeline::TryAgain(int64_t run, const std::string& kind) {
  return WriteNow([&](storage::Store& store) {
    return store.TryAgain(run, absl::string_view(kind.data(), kind.size()));
  });
}

absl::Status SyncPipeline::Write(int64_t run, std::function<absl::Status(storage::Store&)> write) {
  if (store_ == nullptr) return WriteNow(write);
  RETURN_IF_ERROR(store_->SubmitAndWait(std::move(write)));
  aggregate_->Notify(run);
  return absl::OkStatus();
}

absl::Status SyncPipeline::WriteNow(const std::function<absl::Status(storage::Store&)>& write) {
  RETURN_IF_ERROR(unused_->Begin());
  absl::Status status = write(*unused_);
  if (status.ok()) status = unused_->Commit();
  if (!status.ok()) unused_->Rollback();
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "; free space on that disk, and try again"));
}

std::string SyncPipeline::StoreError() const {
  return store_ == nullptr ? "" : store_->counters().last_error;
}

absl::Status SyncPipeline::CheckCredentials(const model::Run& run, const std::string& kind) const {
  return FindKey(credentials_, state_dir_, run, kind).status();
}

absl::StatusOr<int64_t> SyncPipeline::LastStep(const model::Run& run, const std::string& kind,
                                               absl::Duration timeout) const {
  ASSIGN_OR_RETURN(const deliver::Credential key, FindKey(credentials_, state_dir_, run, kind));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<deliver::CurlTransport> transport,
      deliver::CurlTransport::Create(deliver::CurlTransport::Options::FromEnvironment()));
  deliver::ReadBackOptions options;
  options.timeout = timeout;
  options.now = SteadyNow;
  options.sleep = absl::SleepFor;
  return deliver::FindDestination(kind)->LastStep(run, *transport, key, options);
}

absl::Status SyncPipeline::Start(std::set<int64_t> runs, bool waits_for_space) {
  pipeline::TrackerOptions options;
  store_ =
      std::make_unique<pipeline::StoreLoop>(std::move(unused_), pipeline::StoreLoop::Options());
  if (!waits_for_space) store_->StopRetrying();
  options.wanted = [chosen = std::move(runs)](int64_t run) { return chosen.count(run) != 0; };
  ASSIGN_OR_RETURN(std::vector<pipeline::DeliverLoop::Worker> workers,
                   pipeline::MakeTrackerWorkers(state_dir_, &credentials_, options));
  deliver_ = std::make_unique<pipeline::DeliverLoop>(store_.get(), std::move(workers),
                                                     pipeline::DeliverLoop::Options());
  ASSIGN_OR_RETURN(std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(state_dir_));
  pipeline::AggregateLoop::Options aggregate_options;
  aggregate_options.on_primary_chosen = [deliver = deliver_.get()](int64_t run) {
    deliver->AddRun(run);
  };
  aggregate_ = std::make_unique<pipeline::AggregateLoop>(
      store_.get(), std::move(reader), SteadyNow,
      [deliver = deliver_.get()](int64_t run) { deliver->NotifyRows(run); }, aggregate_options);
  deliver_->Start();
  aggregate_->Start();
  deliver_->Drain(absl::ZeroDuration());  // from now on, nothing waits for full batches
  return absl::OkStatus();
}

}  // namespace ranklog::cli
