#include "tests/simulation/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/tracker/local_delivery.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "tests/support/bare_ingest.h"
#include "tests/support/wandb_account.h"

namespace ranklog::simulation {
namespace {

constexpr int kWorkers = 2;
constexpr absl::Duration kAttachGrace = absl::Seconds(15);  // equal to RankWatch's
constexpr absl::Duration kHeadStart = absl::Seconds(5);
// Some of the staged files are larger, so they are sent in parts.
constexpr uint64_t kMultipartBytes = 8 << 10;
constexpr uint64_t kPartBytes = 4 << 10;

}  // namespace

DaemonLife::DaemonLife(World* world, Surroundings surroundings)
    : world_(*world),
      surroundings_(std::move(surroundings)),
      started_(world->now()),
      credentials_(testing::WandbKey(std::string(40, 'k'))),
      breakers_({.seed = 1}, [world] { return world->now(); }),
      next_checkpoint_(world->now() + absl::Seconds(1)) {}

absl::StatusOr<std::unique_ptr<DaemonLife>> DaemonLife::Start(World* world,
                                                              const Surroundings& surroundings) {
  std::unique_ptr<DaemonLife> life(new DaemonLife(world, surroundings));
  RETURN_IF_ERROR(life->Open());
  return life;
}

DaemonLife::~DaemonLife() {
  *dead_ = true;
  surroundings_.vfs->FreezeAt(1);
  for (const auto& link : links_) link->DaemonDied();
  if (store_ != nullptr) store_->Stop();
}

std::vector<pipeline::DeliverLoop::Worker> DaemonLife::Workers() {
  std::vector<pipeline::DeliverLoop::Worker> workers;
  for (int i = 0; i < kWorkers; ++i) {
    pipeline::DeliverLoop::Worker worker;
    const std::shared_ptr<deliver::Transport> transport =
        surroundings_.tracker->Connect(surroundings_.node, [this] { return works(); });
    deliver::wandb::WandbDelivery::Options options;
    options.backoff.seed = world_.Bits() | 1;
    options.files = false;  // those of the daemon itself; it sends what ranks staged
    options.multipart_bytes = kMultipartBytes;
    options.part_bytes = kPartBytes;
    const std::string staged = ingest::ContentDir::PathIn(surroundings_.state_dir);
    worker.make = [this, transport, options, staged](
                      const model::Run& run,
                      const model::Delivery& delivery) -> std::unique_ptr<deliver::RunDelivery> {
      if (delivery.kind == "local") return std::make_unique<deliver::LocalDelivery>(delivery);
      return std::make_unique<deliver::wandb::WandbDelivery>(
          run, delivery,
          deliver::DeliveryParts{.transport = transport.get(),
                                 .breakers = &breakers_,
                                 .credentials = &credentials_,
                                 .content_dir = staged},
          options);
    };
    workers.push_back(std::move(worker));
  }
  return workers;
}

absl::Status DaemonLife::Open() {
  const std::string& dir = surroundings_.state_dir;
  const char* const vfs = surroundings_.vfs->name();
  ASSIGN_OR_RETURN(auto store, storage::Store::Open(dir, {.vfs = vfs}));
  store_ = std::make_unique<pipeline::StoreLoop>(
      std::move(store),
      pipeline::StoreLoop::Options{.max_queued_bytes = 64 << 10, .threads = false});
  const auto clock = [this] { return world_.now(); };
  const auto wall_clock = [this] { return surroundings_.wall_clock->now(); };
  std::vector<pipeline::DeliverLoop::Worker> workers = Workers();
  for (auto& worker : workers) {
    ASSIGN_OR_RETURN(worker.reader, storage::StoreReader::Open(dir, vfs));
  }
  deliver_ = std::make_unique<pipeline::DeliverLoop>(
      store_.get(), std::move(workers),
      pipeline::DeliverLoop::Options{.steady_clock = clock, .wall_clock = wall_clock});
  ASSIGN_OR_RETURN(auto reader, storage::StoreReader::Open(dir, vfs));
  pipeline::AggregateLoop::Options aggregate;
  aggregate.run.chunk_bytes = 16 << 10;
  aggregate.run.round_bytes = 32 << 10;
  aggregate.on_primary_chosen = [this](int64_t run) {
    if (push_ != nullptr) push_->Notify(run);
    deliver_->AddRun(run);
  };
  if (surroundings_.push != nullptr) {
    aggregate.run.joins_nodes = true;
    aggregate.run.heard = [this](const model::Stream& stream) { return receiver_->Heard(stream); };
  }
  aggregate_ = std::make_unique<pipeline::AggregateLoop>(
      store_.get(), std::move(reader), clock, [this](int64_t run) { deliver_->NotifyRows(run); },
      aggregate);
  if (surroundings_.before_removal != nullptr || surroundings_.uploads) {
    ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(dir, vfs));
    pipeline::RetentionLoop::Options retention{.limits = {}, .interval = absl::Seconds(1)};
    retention.wall_clock = wall_clock;
    if (surroundings_.before_removal != nullptr) {
      retention.limits = {.keep_for = absl::ZeroDuration(), .keep_bytes = 0};
    }
    if (surroundings_.uploads) retention.content_dir = ingest::ContentDir::PathIn(dir);
    retention_ = std::make_unique<pipeline::RetentionLoop>(store_.get(), std::move(reader),
                                                           std::move(retention));
  }
  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(dir, vfs));
  attacher_ = std::make_unique<ingest::Attacher>(std::move(reader), wall_clock);
  ASSIGN_OR_RETURN(reader_, storage::StoreReader::Open(dir, vfs));
  auto peer = std::make_shared<ingest::Peer>();
  peer->pid = getpid();
  peer->uid = geteuid();
  peer_ = std::move(peer);
  context_ = testing::BareIngest(store_.get(), attacher_.get(), &registry_, &counters_);
  ASSIGN_OR_RETURN(content_, ingest::ContentDir::Open(dir, int64_t{1} << 30, absl::Now()));
  context_.content = content_.get();
  context_.credentials.usual_destination = [](const auto&) { return "wandb"; };
  context_.run_attached = [this](int64_t run) { deliver_->AddRun(run); };
  context_.run_changed = [this](int64_t run) {
    aggregate_->Notify(run);
    if (push_ != nullptr) push_->Notify(run);
  };
  context_.when_caught_up = [this](auto then) {
    waiting_.push_back({world_.now(), std::move(then)});
    next_watch_ = absl::InfinitePast();
  };
  context_.wall_clock = wall_clock;
  orphans_ = std::make_unique<ingest::Orphans>(&context_, reader_.get());
  live_rings_ = std::make_unique<ingest::LiveRings>(
      &context_, [] {},
      [this](const ingest::RingFile&, uint64_t incarnation) {
        return surroundings_.lives(incarnation);
      });
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader_->LiveStreams());
  for (const model::Stream& stream : streams) {
    if (stream.state == model::StreamState::kLive && stream.peer.empty()) {
      registry_.AddKnown(stream);
    }
  }
  return surroundings_.push != nullptr ? OpenPeers() : absl::OkStatus();
}

// What Peering does, without gRPC.
absl::Status DaemonLife::OpenPeers() {
  const auto clock = [this] { return world_.now(); };
  receiver_ = std::make_unique<peer::PushReceiver>(
      peer::PushReceiver::Options{.store = store_.get(),
                                  .attacher = attacher_.get(),
                                  .run_changed = context_.run_changed,
                                  .steady_clock = clock,
                                  .wall_clock = context_.wall_clock});
  ASSIGN_OR_RETURN(auto reader,
                   storage::StoreReader::Open(surroundings_.state_dir, surroundings_.vfs->name()));
  peer::PushLoop::Options options;
  options.part.node = absl::StrCat("node", surroundings_.node);
  options.part.sender = world_.Bits() | 1;
  options.part.stream_bytes = 4 << 10;  // so that a request has not always all rows
  options.part.request_bytes = 16 << 10;
  options.home = HostPort{"node0", 1};
  options.steady_clock = clock;
  options.wall_clock = context_.wall_clock;
  options.forget_after = absl::Hours(24 * 1000);  // clocks are set by days
  surroundings_.began(options.part.sender);
  push_ = std::make_unique<peer::PushLoop>(
      store_.get(), std::move(reader),
      [this](const HostPort&, const v1::PushRequest& request, auto done) {
        surroundings_.push(request, std::move(done));
      },
      options);
  return absl::OkStatus();
}

void DaemonLife::Push(const v1::PushRequest& request,
                      std::function<void(absl::Status, v1::PushReply)> answer) {
  receiver_->Handle(request, [this, dead = dead_, answer = std::move(answer)](v1::PushReply reply) {
    if (*dead || !works()) return answer(absl::UnavailableError("the daemon is gone"), {});
    answer(absl::OkStatus(), std::move(reply));
  });
}

void DaemonLife::Connect(const std::shared_ptr<Link>& link, uint64_t incarnation) {
  links_.push_back(link);
  link->Accept(
      ingest::AttachSession::Start(&context_, peer_, link.get()),
      [this, dead = dead_] { return !*dead && works(); },
      [this, incarnation](const v1::ServerMessage& message) {
        surroundings_.on_sent(incarnation, message);
      });
}

void DaemonLife::Finish(const v1::FinishRequest& request, ingest::Answer answer) {
  ingest::Finish(&context_, request, std::move(answer));
}

void DaemonLife::Pass(const std::string& path) {
  auto file = ingest::RingFile::OpenLeft(path);
  if (file.ok()) live_rings_->Offer(*std::move(file), peer_, UniqueFd());
}

absl::Duration DaemonLife::Step() {
  absl::Duration wait = absl::Milliseconds(500);
  const auto stage = [&](int which) {
    const absl::Time now = world_.now();
    switch (which) {
      case 0: {
        if (now < next_commit_) return;
        const absl::Duration retry = store_->Step();
        if (retry < absl::InfiniteDuration()) next_commit_ = now + retry;
        return;
      }
      case 1:
        wait = std::min(wait, aggregate_->Step());
        return;
      case 2:
        wait = std::min(wait, deliver_->Step());
        return;
      case 3:
        if (now < next_watch_) return;
        next_watch_ = now + world_.Delay(250, 3000);
        return Watch();
      case 4:
        if (now < next_checkpoint_) return;
        next_checkpoint_ = now + absl::Seconds(1);
        return store_->Checkpoint();
      case 5:
        if (now < next_read_) return;
        next_read_ = now + ingest::LiveRings::kInterval;
        return live_rings_->Read();
      case 6:
        if (now < next_removal_) return;
        if (surroundings_.before_removal != nullptr) surroundings_.before_removal();
        next_removal_ = now + retention_->Step();
        return;
      default:
        wait = std::min(wait, push_->Step());
        return;
    }
  };
  std::vector<int> order = {0, 1, 2, 3, 4};
  if (surroundings_.forks) order.push_back(5);
  if (retention_ != nullptr) order.push_back(6);
  if (push_ != nullptr) order.push_back(7);
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[world_.Below(i + 1)]);
  for (int which : order) {
    if (works() && (!world_.faults || world_.Chance(0.8))) stage(which);
  }
  return std::max(wait, absl::Milliseconds(1));
}

// Does what RankWatch does for its streams. Here it is known which ranks are alive.
void DaemonLife::Watch() {
  FindRings();
  for (const ingest::LiveStream& live : registry_.Detached()) {
    if (!works() || surroundings_.lives(live.key.incarnation)) continue;
    if (live.ring == nullptr && world_.now() - started_ <= kAttachGrace) continue;
    world_.Note("drains rank ", live.key.rank);
    orphans_->EndDead(live);
  }
  const std::vector<std::string> files = surroundings_.ring_files();
  const bool caught_up = std::none_of(files.begin(), files.end(), [](const std::string& path) {
    return std::filesystem::exists(path);
  });
  for (Waiter& each : std::exchange(waiting_, {})) {
    if (!works()) return;
    if (caught_up || world_.now() - each.since > kHeadStart) {
      each.then();
    } else {
      waiting_.push_back(std::move(each));
    }
  }
}

void DaemonLife::FindRings() {
  std::vector<ingest::Orphans::OrphanRing> left;
  for (const std::string& path : surroundings_.ring_files()) {
    if (!works()) return;
    auto file = ingest::RingFile::OpenLeft(path);
    if (!file.ok()) continue;
    auto ring = ingest::SpoolReader::Open((*file)->fd());
    if (!ring.ok()) continue;
    const auto live = registry_.FindIncarnation(ring->incarnation());
    if (live && live->ring == nullptr) registry_.OfferRing(ring->incarnation(), *file);
    if (live || surroundings_.lives(ring->incarnation())) continue;
    world_.Note("adopts a ring");
    left.push_back({*std::move(file), *std::move(ring)});
  }
  live_rings_->TakeLeft();                                 // these are among ring_files
  orphans_->Adopt(left, [](const auto&, const auto&) {});  // tried again at the next call
}

}  // namespace ranklog::simulation
