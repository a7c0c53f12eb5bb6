#include "service/cli/sync_pipeline.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/deliver/curl_transport.h"
#include "service/deliver/local_delivery.h"
#include "service/deliver/wandb/base_url.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::cli {
namespace {

constexpr int kWorkers = 4;  // a tracker that hangs holds up a quarter of the runs

absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SyncPipeline>> SyncPipeline::Open(const std::string& state_dir,
                                                                 storage::StateLock lock) {
  ASSIGN_OR_RETURN(std::unique_ptr<storage::Store> store, storage::Store::Open(state_dir, {}));
  return std::unique_ptr<SyncPipeline>(
      new SyncPipeline(state_dir, std::move(lock), std::move(store)));
}

SyncPipeline::SyncPipeline(std::string state_dir, storage::StateLock lock,
                           std::unique_ptr<storage::Store> store)
    : state_dir_(std::move(state_dir)),
      lock_(std::move(lock)),
      credentials_(deliver::CredentialStore::Options::FromEnvironment(state_dir_)),
      store_(std::move(store), {}) {}

// The aggregate's writes call the delivery, and the store's loop answers both: so it ends before
// they go.
SyncPipeline::~SyncPipeline() {
  if (aggregate_ != nullptr) aggregate_->Stop();
  if (deliver_ != nullptr) deliver_->Stop();
  store_.Stop();
}

absl::Status SyncPipeline::AddDestination(int64_t run, const std::string& kind) {
  model::Delivery delivery;
  delivery.run = run;
  delivery.kind = kind;
  delivery.place = model::Json::object();
  return store_.SubmitAndWait(
      [delivery](storage::Store& store) { return store.PutDelivery(delivery); });
}

absl::Status SyncPipeline::CheckCredentials(const model::Run& run, const std::string& kind) const {
  if (kind != deliver::wandb::kKind) return absl::OkStatus();
  const std::string base_url =
      run.settings.base_url.empty() ? deliver::wandb::kPublicBaseUrl : run.settings.base_url;
  const auto key = credentials_.Find(absl::string_view(base_url.data(), base_url.size()));
  if (key.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("there is no usable API key for ", base_url, ": ", key.status().message(),
                   "\nSet WANDB_API_KEY; or log in with the W&B client, which writes ~/.netrc; or "
                   "write the line\n"
                   "  machine HOST login user password KEY\ninto ",
                   state_dir_, "/credentials, readable for you only (chmod 600)"));
}

absl::Status SyncPipeline::Start(std::set<int64_t> runs) {
  const auto chosen = std::make_shared<const std::set<int64_t>>(std::move(runs));
  std::vector<pipeline::DeliverLoop::Worker> workers;
  for (int i = 0; i < kWorkers; ++i) {
    ASSIGN_OR_RETURN(workers.emplace_back(), MakeWorker(chosen));
  }
  deliver_ = std::make_unique<pipeline::DeliverLoop>(&store_, std::move(workers),
                                                     pipeline::DeliverLoop::Options());
  ASSIGN_OR_RETURN(std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(state_dir_));
  aggregate_ = std::make_unique<pipeline::AggregateLoop>(
      &store_, std::move(reader), SteadyNow,
      [deliver = deliver_.get()](int64_t run) { deliver->NotifyRows(run); },
      pipeline::AggregateLoop::Options());
  deliver_->Start();
  aggregate_->Start();
  deliver_->Drain(absl::Now());  // from now on nothing waits for more to gather
  return absl::OkStatus();
}

absl::StatusOr<pipeline::DeliverLoop::Worker> SyncPipeline::MakeWorker(
    std::shared_ptr<const std::set<int64_t>> runs) {
  pipeline::DeliverLoop::Worker worker;
  ASSIGN_OR_RETURN(worker.reader, storage::StoreReader::Open(state_dir_));
  ASSIGN_OR_RETURN(std::unique_ptr<deliver::CurlTransport> made,
                   deliver::CurlTransport::Create({}));
  const std::shared_ptr<deliver::CurlTransport> transport = std::move(made);
  worker.cancel = [transport] { transport->Cancel(); };
  worker.make = [transport, runs, credentials = &credentials_](
                    const model::Run& run,
                    const model::Delivery& delivery) -> std::unique_ptr<deliver::RunDelivery> {
    if (delivery.kind == "local") return std::make_unique<deliver::LocalDelivery>(delivery);
    if (delivery.kind != deliver::wandb::kKind || runs->count(run.id) == 0) return nullptr;
    return std::make_unique<deliver::wandb::WandbDelivery>(
        run, delivery, transport.get(), credentials, deliver::wandb::WandbDelivery::Options());
  };
  return worker;
}

}  // namespace ranklog::cli
