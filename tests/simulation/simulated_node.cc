#include "tests/simulation/simulated_node.h"

#include <errno.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <utility>

namespace ranklog::simulation {

SimulatedNode::SimulatedNode(World* world, Oracle* oracle, Tracker* tracker, SeedResult* outcome,
                             const Options& options)
    : world_(*world),
      oracle_(*oracle),
      tracker_(*tracker),
      outcome_(*outcome),
      options_(options),
      wall_clock_(world),
      reach_(Reach()) {
  const std::string spool = options_.dir + "/spool";
  std::filesystem::create_directories(spool);
  std::filesystem::permissions(spool, std::filesystem::perms::owner_all);
  ranks_.resize(options_.rings.size());
  processes_.resize(options_.rings.size());
}

void SimulatedNode::Start(int64_t step) {
  if (!world_.Chance(0.2)) StartDaemon();  // otherwise the ranks start first
  world_.After(world_.Delay(0, 3000), [this] { StartDaemon(); });
  for (size_t i = 0; i < ranks_.size(); ++i) StartRank(i, step);
  world_.After(world_.Delay(0, 2000), [this] { DisturbDisk(); });
  if (options_.clock_steps) world_.After(world_.Delay(0, 10000), [this] { StepClock(); });
}

void SimulatedNode::StartDaemon() {
  if (daemon_ != nullptr || left_) return;
  vfs_.Thaw();
  DaemonLife::Surroundings surroundings{
      .node = options_.rank.node,
      .state_dir = options_.dir + "/state",
      .vfs = &vfs_,
      .tracker = &tracker_,
      .wall_clock = &wall_clock_,
      .lives =
          [this](uint64_t incarnation) {
            return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
              return rank != nullptr && rank->Owns(incarnation);
            });
          },
      .ring_files = [this] { return left_rings_; },
      .on_sent =
          [this](uint64_t incarnation, const v1::ServerMessage& message) {
            for (const auto& ring : oracle_.rings()) {
              if (ring->incarnation != incarnation) continue;
              const uint64_t durable =
                  message.has_hello() ? message.hello().durable_seq() : message.ack().durable_seq();
              ring->acknowledged = std::max(ring->acknowledged, durable);
              const uint64_t items = message.has_hello() ? message.hello().durable_item()
                                                         : message.ack().durable_item();
              ring->acknowledged_items = std::max(ring->acknowledged_items, items);
            }
          },
      .forks = options_.children > 0,
      .uploads = options_.uploads,
      .before_removal = nullptr,
      .push = nullptr,
      .began = nullptr};
  if (PeerNetwork* const network = options_.network; network != nullptr) {
    const uint32_t node = options_.rank.node;
    surroundings.push = [network, node](const v1::PushRequest& request, auto done) {
      network->Send(node, request, std::move(done));
    };
    surroundings.began = [network, node](uint64_t sender) { network->Began(node, sender); };
  }
  if (options_.removes) surroundings.before_removal = [this] { CopyStore(); };
  auto started = DaemonLife::Start(&world_, surroundings);
  world_.Note("daemon starts: ", std::string(absl::StatusCodeToString(started.status().code())));
  tracker_.ForgetWaits(options_.rank.node);
  if (!started.ok()) {
    if (!world_.faults) outcome_.wrong.push_back(started.status().ToString());
    vfs_.Thaw();
    world_.After(world_.Delay(500, 3000), [this] { StartDaemon(); });
    return;
  }
  daemon_ = *std::move(started);
  const uint64_t life = ++lives_;
  world_.After(absl::ZeroDuration(), [this, life] { StepDaemon(life); });
}

void SimulatedNode::KillDaemon(const std::string& why) {
  if (daemon_ == nullptr) return;
  world_.Note("daemon dies: ", why);
  ++outcome_.daemon_deaths;
  daemon_.reset();
  vfs_.Thaw();
  world_.After(world_.Delay(100, 5000), [this] { StartDaemon(); });
}

void SimulatedNode::StepDaemon(uint64_t life) {
  if (daemon_ == nullptr || life != lives_) return;
  const absl::Duration wait = daemon_->Step();
  if (!daemon_->works()) return KillDaemon("in the middle of a write");
  if (options_.reopens && outcome_.wrong.empty()) JudgeDeliveries();
  if (world_.faults && world_.Chance(options_.daemon_deaths)) {
    if (world_.Chance(0.4)) return KillDaemon("at rest");
    vfs_.TearWrites(world_.Chance(0.5));
    vfs_.FreezeAt(static_cast<int64_t>(world_.Between(1, 20)));
  }
  const absl::Duration pause = logging_ ? world_.Delay(2, 60) : world_.Delay(20, 200);
  world_.After(std::min(std::max(wait, absl::Milliseconds(2)), pause),
               [this, life] { StepDaemon(life); });
}

void SimulatedNode::JudgeDeliveries() {
  const auto reader = OpenStore();
  if (!reader.ok()) return;
  const auto runs = (*reader)->Runs();
  if (!runs.ok()) return;
  for (const model::Run& run : *runs) {
    if (run.state != model::RunState::kRunning) continue;
    const auto deliveries = (*reader)->Deliveries(run.id);
    if (!deliveries.ok()) return;
    for (const model::Delivery& delivery : *deliveries) {
      if (!delivery.complete) continue;
      outcome_.wrong.push_back(run.run_id + " goes on, and its delivery is complete");
    }
  }
}

void SimulatedNode::Leave() {
  world_.Note("node ", options_.rank.node, " is left");
  left_ = true;
  logging_ = false;
  if (daemon_ != nullptr) ++outcome_.daemon_deaths;
  daemon_.reset();
  vfs_.Thaw();
  for (size_t i = 0; i < ranks_.size(); ++i) KillRank(i);
}

void SimulatedNode::LeaveForEver() {
  Leave();
  gone_ = true;
}

void SimulatedNode::Return() {
  world_.Note("node ", options_.rank.node, " is back");
  left_ = false;
  StartDaemon();
}

// The node goes down. It loses its memory, and data that the disk was not told to sync.
void SimulatedNode::CutPower() {
  world_.Note("the power is cut");
  ++outcome_.power_cuts;
  vfs_.CutPower();
  if (daemon_ != nullptr) ++outcome_.daemon_deaths;
  daemon_.reset();
  const bool in_order = world_.Chance(0.5);
  vfs_.LoseUnsynced([&] { return !in_order && world_.Chance(0.5); });
  vfs_.Thaw();
  for (size_t i = 0; i < ranks_.size(); ++i) KillRank(i);
  for (const std::string& path : left_rings_) std::filesystem::remove(path);
  left_rings_.clear();
  for (const auto& ring : oracle_.rings()) {
    if (ring->node != options_.rank.node) continue;
    ring->lost_with_node = true;
    ring->ended_before_next = false;
  }
  world_.After(world_.Delay(1000, 5000), [this] { StartDaemon(); });
}

void SimulatedNode::DisturbDisk() {
  if (!world_.faults) return;
  vfs_.Heal();
  if (world_.Chance(options_.disk_faults)) {
    vfs_.TearWrites(world_.Chance(0.5));
    const auto n = static_cast<int64_t>(world_.Between(1, 30));
    const int error = world_.Chance(0.5) ? ENOSPC : EIO;
    const uint64_t kind = world_.Below(3);
    if (kind == 0) vfs_.FailWrites(n, error);
    if (kind == 1) vfs_.FailSyncs(n, error);
    if (kind == 2) vfs_.FailReads(n, EIO);
    world_.Note("the disk fails: ", kind);
    tracker_.ForgetWaits(options_.rank.node);
  }
  world_.After(world_.Delay(100, 3000), [this] { DisturbDisk(); });
}

// Sets the clock by up to a day, either way; also after the faults have ended, while waits are
// long.
void SimulatedNode::StepClock() {
  constexpr absl::Duration kSteps[] = {absl::Hours(24), absl::Hours(-24), absl::Hours(1),
                                       absl::Minutes(-5), absl::Milliseconds(-800)};
  const absl::Duration step = kSteps[world_.Below(std::size(kSteps))];
  world_.Note("the wall clock is set by ", absl::FormatDuration(step));
  wall_clock_.Step(step);
  world_.After(logging_ ? world_.Delay(1000, 10000) : world_.Delay(10000, 100000),
               [this] { StepClock(); });
}

void SimulatedNode::RestartDaemon() { KillDaemon("at rest"); }

void SimulatedNode::EndFaults(bool end_ranks) {
  logging_ = false;
  vfs_.Heal();
  if (end_ranks) EndRanks();
  if (daemon_ == nullptr) StartDaemon();
}

void SimulatedNode::CopyStore() {
  NoteRemoved();
  const auto reader = OpenStore();
  if (!reader.ok()) return;
  const auto runs = (*reader)->Runs();
  if (!runs.ok() || std::all_of(runs->begin(), runs->end(), [](const model::Run& run) {
        return run.state == model::RunState::kRunning;
      })) {
    return;
  }
  copied_ = *runs;
  copy_ = absl::StrCat(options_.dir, "/before-", ++copies_);
  std::filesystem::create_directories(copy_);
  std::filesystem::permissions(copy_, std::filesystem::perms::owner_all);
  for (const char* file : {"/ranklog.db", "/ranklog.db-wal"}) {
    std::error_code absent;
    std::filesystem::copy_file(options_.dir + "/state" + file, copy_ + file, absent);
  }
}

void SimulatedNode::NoteRemoved() {
  if (copied_.empty()) return;
  const auto reader = OpenStore();
  if (!reader.ok()) return;
  bool needed = false;
  for (const model::Run& run : copied_) {
    if (!absl::IsNotFound((*reader)->GetRun(run.id).status())) continue;
    world_.Note("removed ", run.run_id);
    removed_.push_back({copy_, run});
    needed = true;
  }
  if (!needed) std::filesystem::remove_all(copy_);
  copied_.clear();
}

bool SimulatedNode::Delivered() const {
  if (daemon_ == nullptr) return false;
  if (std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank != nullptr; })) {
    return false;
  }
  for (const std::string& path : left_rings_) {
    if (std::filesystem::exists(path)) return false;
  }
  const auto reader = OpenStore();
  if (!reader.ok()) return false;
  const auto streams = (*reader)->LiveStreams();
  const auto pending = (*reader)->PendingDeliveries();
  if (options_.removes) {
    const auto removable = (*reader)->Removable(std::numeric_limits<int64_t>::max());
    if (!removable.ok() || !removable->empty()) return false;
  }
  return streams.ok() && streams->empty() && pending.ok() && pending->empty();
}

bool SimulatedNode::Joined() const {
  const auto reader = OpenStore();
  if (!reader.ok()) return false;
  const auto runs = (*reader)->RunsToJoin(0);
  return runs.ok() && runs->empty();
}

void SimulatedNode::Close() {
  daemon_.reset();
  vfs_.Thaw();
  NoteRemoved();
}

absl::StatusOr<std::unique_ptr<storage::StoreReader>> SimulatedNode::OpenStore() const {
  return storage::StoreReader::Open(options_.dir + "/state");
}

}  // namespace ranklog::simulation
