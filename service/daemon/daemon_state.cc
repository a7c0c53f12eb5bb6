// What a daemon reports of itself while it runs.

#include <grpcpp/health_check_service_interface.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "service/base/clock.h"
#include "service/daemon/daemon.h"
#include "service/daemon/metrics/daemon_counters.h"
#include "service/storage/store_reader.h"

namespace ranklog::daemon {

std::string Daemon::HangingLoop(absl::Duration limit) const {
  const absl::Time now = SteadyNow();
  const std::pair<const char*, absl::Duration> loops[] = {
      {"store", store_->Silence(now)},           {"aggregate", aggregate_->Silence(now)},
      {"deliver", deliver_->Silence(now)},       {"rank watch", watch_->Silence(now)},
      {"live rings", live_rings_->Silence(now)}, {"accept", acceptor_->Silence(now)},
      {"peers", peering_.Silence(now)}};
  for (const auto& [name, silence] : loops) {
    if (silence >= limit) return name;
  }
  return "";
}

void Daemon::Tick() {
  monitor_.Sample(SteadyNow(), counters_.rows);
  const bool stores = store_->counters().last_error.empty() && monitor_.view().disk_writable;
  grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService();
  health->SetServingStatus("", stores);
  health->SetServingStatus("ranklog.v1.Ingest", stores);
  health->SetServingStatus("ranklog.v1.Control", true);
}

ControlService::Now Daemon::StatusNow() const {
  peer::Peering::State peer = peering_.state();
  return {.attached = registry_.CountAttached(),
          .monitor = monitor_.view(),
          .store_error = store_->counters().last_error,
          .destinations = deliver_->counters().destinations,
          .stopped_runs = aggregate_->counters().stopped,
          .counters = Counters(),
          .peer = ControlService::Peer{.key_file = config_.peer_key_file,
                                       .fingerprint = std::move(peer.fingerprint),
                                       .address = std::move(peer.listens),
                                       .error = std::move(peer.error),
                                       .links = std::move(peer.links),
                                       .nodes = std::move(peer.nodes)}};
}

MetricValues Daemon::FiguresNow() const {
  const ingest::StreamRegistry::Attached attached = registry_.CountAttached();
  MetricValues figures;
  figures.version = RANKLOG_VERSION;
  figures.start_time_us = start_time_us_;
  figures.counters = Counters();
  figures.streams = attached.streams;
  figures.ranks = attached.ranks;
  figures.jobs = attached.jobs;
  figures.commit_time = store_->counters().commit_time;
  figures.destinations = deliver_->counters().destinations;
  figures.monitor = monitor_.view();
  figures.system = samples_->OfNode();
  AddProcess(&figures);
  // Unreadable values are left out: the log and `ranklog doctor` report errors of the store.
  const auto reader = storage::StoreReader::Open(locked_dir_.dir);
  if (!reader.ok()) return figures;
  figures.queues = (*reader)->Queues().value_or(std::vector<storage::Queue>());
  figures.losses = (*reader)->LossesOfAll().value_or(model::Losses());
  return figures;
}

std::map<std::string, uint64_t> Daemon::Counters() const {
  return NamedCounters(accept_counters_, counters_, store_->counters(), aggregate_->counters(),
                       deliver_->counters(), retention_->counters(), samples_->counters(),
                       peering_.state());
}

}  // namespace ranklog::daemon
