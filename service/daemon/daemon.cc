#include "service/daemon/daemon.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "ranklog/v1/places.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/clock.h"
#include "service/base/peer_defaults.h"
#include "service/base/status_macros.h"
#include "service/daemon/notices.h"
#include "service/daemon/open_store.h"
#include "service/ingest/ingest_credentials.h"
#include "service/pipeline/delivery/crashed_deliveries.h"
#include "service/pipeline/delivery/trackers.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"

namespace ranklog::daemon {
namespace {

std::vector<std::string> StandardSpoolDirs() {
  std::vector<std::string> dirs;
  for (const v1::PrivateDir& dir : v1::StandardDirs()) dirs.push_back(dir.path);
  return dirs;
}

// Time for live ranks to attach again: their backoff grows to 5 s.
constexpr absl::Duration kRanksReturn = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config) {
  ASSIGN_OR_RETURN(storage::LockedDir place, storage::LockFirst(config.state_dirs));
  for (const std::string& reason : place.skipped) {
    spdlog::warn("{}; the log is kept in {}", reason, place.dir);
  }
  std::unique_ptr<Daemon> daemon(new Daemon(config, std::move(place)));
  RETURN_IF_ERROR(daemon->StartStages());
  daemon->StartMetrics();
  RETURN_IF_ERROR(daemon->StartServer());
  daemon->Tick();
  RETURN_IF_ERROR(daemon->StartAccepting());
  return daemon;
}

Daemon::Daemon(const Config& config, storage::LockedDir place)
    : config_(config),
      locked_dir_(std::move(place)),
      credentials_(deliver::CredentialStore::Options::FromEnvironment(locked_dir_.dir)),
      registry_([this] { wake_.Notify(); }),
      peering_({.key_file = config.peer_key_file,
                .key_required = config.peer_key_required,
                .listen = config.peer_listen,
                .home = config.peer,
                .port = config.peer_listen ? config.peer_listen->port : DefaultPeerPort()}),
      start_time_us_(absl::ToUnixMicros(absl::Now())),
      monitor_(locked_dir_.dir) {}

Daemon::~Daemon() { Stop(absl::ZeroDuration()); }

bool Daemon::KeepLock() {
  const absl::StatusOr<bool> made = locked_dir_.lock.Keep();
  if (made.ok() && *made) {
    spdlog::warn("{}/lock was removed while the daemon was running, and has been created again",
                 locked_dir_.dir);
  }
  const absl::Status before = std::exchange(lock_kept_, made.status());
  if (!made.ok() && before != made.status()) {
    spdlog::error("{}/lock was removed while the daemon was running: {}", locked_dir_.dir,
                  std::string(made.status().message()));
  }
  return !absl::IsAlreadyExists(made.status());
}

absl::Status Daemon::StartStages() {
  peering_.Load();
  RETURN_IF_ERROR(MakeDelivery());
  RETURN_IF_ERROR(MakeAggregation());
  RETURN_IF_ERROR(MakeIngest());
  // Before the threads that tell it what has changed.
  RETURN_IF_ERROR(peering_.Start(
      {.state_dir = locked_dir_.dir,
       .store = store_.get(),
       .attacher = attacher_.get(),
       .run_changed = context_.run_changed,
       .on_trouble = [this](int64_t run, const std::string& home, const std::string& error) {
         notices_.Post(run, PartNotice(home, error));
       }}));
  deliver_->Start();
  job_ends_->Start();
  aggregate_->Start();
  retention_->Start();
  samples_->Start();
  return watch_->Start();
}

absl::Status Daemon::MakeDelivery() {
  ASSIGN_OR_RETURN(std::unique_ptr<storage::Store> store, OpenStore(locked_dir_.dir, &set_aside_));
  pipeline::CountCrashedDeliveries(locked_dir_.dir, *store);
  pipeline::StoreLoop::Options store_options;
  store_options.commit_interval = config_.commit_interval;
  store_options.on_outcome = [this](const absl::Status& committed) {
    notices_.Post(ingest::NoticeBoard::kAllRuns, StoreNotice(committed));
  };
  store_ = std::make_unique<pipeline::StoreLoop>(std::move(store), store_options);
  if (const auto notice = StateNotice(locked_dir_.dir)) {
    notices_.Post(ingest::NoticeBoard::kAllRuns, *notice);
  }

  pipeline::TrackerOptions trackers;
  trackers.transmit_interval = config_.transmit_interval;
  trackers.ranks_return_by = SteadyNow() + kRanksReturn;
  ASSIGN_OR_RETURN(std::vector<pipeline::DeliverLoop::Worker> workers,
                   pipeline::MakeTrackerWorkers(locked_dir_.dir, &credentials_, trackers));
  pipeline::DeliverLoop::Options deliver_options;
  deliver_options.on_step = [this](const deliver::StepResult& step) { PostNotices(step); };
  deliver_ =
      std::make_unique<pipeline::DeliverLoop>(store_.get(), std::move(workers), deliver_options);
  return absl::OkStatus();
}

absl::Status Daemon::MakeAggregation() {
  ASSIGN_OR_RETURN(std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(locked_dir_.dir));
  job_ends_ = std::make_unique<pipeline::JobEndLoop>(store_.get(), std::move(reader),
                                                     pipeline::JobEndLoop::Options());
  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(locked_dir_.dir));
  pipeline::AggregateLoop::Options aggregate_options;
  aggregate_options.on_bad_end = [this](int64_t run) { job_ends_->OnEnd(run); };
  aggregate_options.run.step_wait = config_.step_wait;
  aggregate_options.run.first_row_wait = config_.first_row_wait;
  aggregate_options.run.joins_nodes = peering_.takes();
  aggregate_options.run.heard = [this](const model::Stream& stream) {
    return peering_.Heard(stream);
  };
  aggregate_options.on_primary_chosen = [this](int64_t run) {
    peering_.Notify(run);
    notices_.SendRunId(run, attacher_->RunId(run));
    deliver_->AddRun(run);
  };
  aggregate_ = std::make_unique<pipeline::AggregateLoop>(
      store_.get(), std::move(reader), SteadyNow,
      [this](int64_t run) { deliver_->NotifyRows(run); }, aggregate_options);

  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(locked_dir_.dir));
  pipeline::RetentionLoop::Options retention_options;
  retention_options.limits = config_.keep;
  retention_options.content_dir = storage::ContentDirOf(locked_dir_.dir);
  retention_ =
      std::make_unique<pipeline::RetentionLoop>(store_.get(), std::move(reader), retention_options);

  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(locked_dir_.dir));
  pipeline::SampleLoop::Options sample_options;
  sample_options.interval = config_.sample_interval;
  sample_options.node.disk_paths = config_.sample_disks;
  sample_options.node.per_core = config_.sample_cores;
  samples_ = std::make_unique<pipeline::SampleLoop>(
      store_.get(), std::move(reader), [this] { return registry_.Pids(); }, sample_options);
  return absl::OkStatus();
}

absl::Status Daemon::MakeIngest() {
  spool_dirs_ = std::make_unique<storage::SpoolDirs>(locked_dir_.dir, StandardSpoolDirs());
  for (const std::string& dir : config_.spool_dirs) {  // the next daemon may not get the same flags
    if (const absl::Status status = spool_dirs_->Remember(dir + "/"); !status.ok()) {
      spdlog::warn("cannot record the spool directory {}: {}; the next daemon will not search it",
                   dir, std::string(status.message()));
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(locked_dir_.dir));
  attacher_ = std::make_unique<ingest::Attacher>(std::move(reader));
  if (auto content = ingest::ContentDir::Open(locked_dir_.dir, config_.content_bytes, absl::Now());
      content.ok()) {
    content_ = *std::move(content);
  } else {
    spdlog::warn("large items must fit into the ranks' rings: {}",
                 std::string(content.status().message()));
  }
  context_ = {
      .store = store_.get(),
      .attacher = attacher_.get(),
      .registry = &registry_,
      .peers = &peers_,
      .counters = &counters_,
      .credentials = ingest::IngestCredentials(&credentials_),
      .run_attached =
          [this](int64_t run) {
            deliver_->AddRun(run);
            samples_->Notify();
          },
      .run_changed =
          [this](int64_t run) {
            aggregate_->Notify(run);
            peering_.Notify(run);
          },
      .when_caught_up = [this](auto then) { watch_->WhenCaughtUp(std::move(then)); },
      .nodes_notice =
          [this](const model::Session& session) { return NodesNotice(session, peering_.state()); },
      .notices = &notices_,
      .spool_dirs = spool_dirs_.get(),
      .content = content_.get(),
      .state_dir = locked_dir_.dir};
  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(locked_dir_.dir));
  live_rings_ = std::make_unique<ingest::LiveRings>(&context_, [this] { wake_.Notify(); });
  RETURN_IF_ERROR(live_rings_->Start());
  ingest::RankWatch::Options watch_options;
  watch_options.live_rings = live_rings_.get();
  watch_options.spool_dirs = config_.spool_dirs;
  watch_options.socket_path = SocketPath();
  watch_ = std::make_unique<ingest::RankWatch>(&context_, std::move(reader), &wake_, watch_options);
  return absl::OkStatus();
}

// An error is only logged: ranks need the daemon more than a dashboard does, and several daemons of
// a node may have the same port.
void Daemon::StartMetrics() {
  if (!config_.metrics_port) return;
  auto metrics = MetricsServer::Start(*config_.metrics_port, [this] { return FiguresNow(); });
  if (metrics.ok()) {
    metrics_ = *std::move(metrics);
    spdlog::info("metrics are at {}", metrics_->url());
  } else {
    spdlog::error("{}", std::string(metrics.status().message()));
  }
}

absl::Status Daemon::StartServer() {
  ingest_ = std::make_unique<ingest::IngestService>(context_);
  run_commands_ = std::make_unique<RunCommands>(RunCommands::Parts{.state_dir = locked_dir_.dir,
                                                                   .credentials = &credentials_,
                                                                   .notices = &notices_,
                                                                   .store = store_.get(),
                                                                   .deliver = deliver_.get(),
                                                                   .retention = retention_.get()});
  control_ = std::make_unique<ControlService>(ControlService::About{
      .state_dir = locked_dir_.dir,
      .started_by = StartedBy(),
      .start_time_us = start_time_us_,
      .keep = config_.keep,
      .content_quota = content_ == nullptr ? 0 : config_.content_bytes,
      .metrics_url = metrics_ == nullptr ? "" : metrics_->url(),
      .now = [this] { return StatusNow(); },
      .add_destination =
          [this](ControlService::NewDestination to, ControlService::Done done) {
            run_commands_->AddDestination(std::move(to), std::move(done));
          },
      .remove_run =
          [this](int64_t run, storage::Removal removal, ControlService::Done done) {
            run_commands_->RemoveRun(run, removal, std::move(done));
          }});
  grpc::EnableDefaultHealthCheckService(true);  // grpc.health.v1; see Tick()
  grpc::ServerBuilder builder;
  builder.RegisterService(ingest_.get());
  builder.RegisterService(control_.get());
  builder.SetMaxReceiveMessageSize(v1::kMaxMessageBytes);
  builder.SetMaxSendMessageSize(v1::kMaxMessageBytes);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("cannot start gRPC");
  return absl::OkStatus();
}

std::string Daemon::SocketPath() const {
  const absl::StatusOr<ingest::ListenSocket> passed = ingest::ListenSocket::FromSystemd();
  return passed.ok() ? passed->path() : config_.socket_path;
}

absl::Status Daemon::StartAccepting() {
  absl::StatusOr<ingest::ListenSocket> passed = ingest::ListenSocket::FromSystemd();
  if (!passed.ok() && !absl::IsNotFound(passed.status())) return passed.status();
  absl::StatusOr<ingest::ListenSocket> socket =
      passed.ok() ? std::move(passed) : ingest::ListenSocket::Bind(config_.socket_path);
  RETURN_IF_ERROR(socket.status());
  ingest::Acceptor::Handlers handlers{
      .grpc =
          [this](UniqueFd fd, std::shared_ptr<const ingest::Peer> peer) {
            peers_.Add(fd.get(), std::move(peer));
            grpc::AddInsecureChannelFromFd(server_.get(), fd.release());
          },
      .descriptor =
          [this](uint64_t incarnation, UniqueFd fd, std::shared_ptr<const ingest::Peer> peer,
                 UniqueFd connection) {
            absl::StatusOr<std::shared_ptr<const ingest::RingFile>> ring =
                ingest::RingFile::FromDescriptor(std::move(fd), *peer);
            if (!ring.ok()) return;
            if (live_rings_->Offer(*ring, std::move(peer), std::move(connection))) return;
            registry_.OfferRing(incarnation, *std::move(ring));
          }};
  ASSIGN_OR_RETURN(acceptor_, ingest::Acceptor::Start(*std::move(socket), {}, std::move(handlers),
                                                      &accept_counters_));
  return absl::OkStatus();
}

void Daemon::PostNotices(const deliver::StepResult& step) {
  absl::StatusOr<std::vector<model::Delivery>> others = DeliveriesOf(step.delivery.run);
  if (!others.ok()) return;
  std::erase_if(*others, [&](const auto& other) { return other.kind == step.delivery.kind; });
  for (const v1::Notice& notice : DeliveryNotices(step, *others)) {
    notices_.Post(step.delivery.run, notice);
  }
  if (step.delivery.complete && std::all_of(others->begin(), others->end(), [](const auto& other) {
        return other.complete || other.kind == "local";
      })) {
    notices_.Forget(step.delivery.run);
  }
}

absl::StatusOr<std::vector<model::Delivery>> Daemon::DeliveriesOf(int64_t run) const {
  ASSIGN_OR_RETURN(const auto reader, storage::StoreReader::Open(locked_dir_.dir));
  return reader->Deliveries(run);
}

}  // namespace ranklog::daemon
