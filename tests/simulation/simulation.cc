#include "tests/simulation/simulation.h"

#include <errno.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/daemon.h"
#include "tests/simulation/rank.h"
#include "tests/simulation/tracker.h"

namespace ranklog::simulation {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(30);  // of the simulated world, without faults

class Simulation {
 public:
  Simulation(uint64_t seed, const std::string& dir, bool keep_trace);
  Outcome Run();

 private:
  void MakeRanks();
  void StartDaemon();
  void KillDaemon(const std::string& why);
  void KillRank(size_t index);
  void CutPower();
  void TickRank(size_t index);
  void LogRank(size_t index);
  void StepDaemon(uint64_t life);
  void DisturbDisk();
  void EndFaults();
  bool AllDelivered();
  void Judge();
  Daemon Reach();

  World world_;
  const std::string dir_;
  Outcome outcome_;
  testing::FaultyVfs vfs_;
  Oracle oracle_;
  std::unique_ptr<Tracker> tracker_;
  Daemon reach_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::string> left_rings_;  // of ranks that are gone
  std::unique_ptr<DaemonLife> daemon_;
  uint64_t lives_ = 0;
  bool logging_ = true;
  absl::Duration log_pause_;
  double disk_faults_;
  double daemon_deaths_;
  bool fault_in_disk_ = false;
};

Simulation::Simulation(uint64_t seed, const std::string& dir, bool keep_trace)
    : world_(seed), dir_(dir) {
  world_.keep_trace = keep_trace;
  outcome_.seed = seed;
  std::filesystem::create_directories(dir_ + "/spool");
  std::filesystem::permissions(dir_ + "/spool", std::filesystem::perms::owner_all);
  Tracker::Options options;
  options.fault = world_.Chance(0.2) ? 0 : 0.3;
  options.poison = world_.Chance(0.3);
  if (world_.Chance(0.3)) options.max_body = 80 << 10;
  tracker_ = std::make_unique<Tracker>(&world_, options);
  log_pause_ = world_.Delay(5, 400);
  disk_faults_ = world_.Chance(0.5) ? 0.3 : 0;
  daemon_deaths_ = world_.Chance(0.7) ? 0.004 : 0;
  reach_ = Reach();
  const v1::LogStrategy strategies[] = {v1::LOG_STRATEGY_MAIN, v1::LOG_STRATEGY_NODE,
                                        v1::LOG_STRATEGY_ALL};
  RankOptions rank;
  rank.ranks = static_cast<uint32_t>(world_.Between(1, 4));
  rank.strategy = strategies[world_.Below(3)];
  rank.explicit_steps = world_.Chance(0.5);
  rank.poison = options.poison;
  rank.spool_dir = dir_ + "/spool";
  for (rank.rank = 0; rank.rank < rank.ranks; ++rank.rank) {
    rank.rings = world_.Chance(0.3) ? 2 : 1;
    ranks_.push_back(std::make_unique<Rank>(&world_, &oracle_, &reach_, rank));
  }
}

Daemon Simulation::Reach() {
  Daemon reach;
  reach.connect = [this](std::shared_ptr<Link> link, RingRecord* ring) {
    if (daemon_ == nullptr) return false;
    daemon_->Connect(link, ring->incarnation);
    return true;
  };
  const auto answer_later = [this](auto answer, absl::Status status) {
    const bool lost = world_.faults && world_.Chance(0.1);
    if (lost) status = absl::DeadlineExceededError("lost");
    world_.After(lost ? absl::Seconds(30) : world_.Delay(0, 20),
                 [answer, code = status.code()] { answer(code); });
  };
  const auto call = [this, answer_later](auto answer, auto act) {
    if (daemon_ == nullptr || (world_.faults && world_.Chance(0.05))) {
      return answer_later(answer, absl::UnavailableError("lost on its way"));
    }
    world_.After(world_.Delay(0, 20), [this, answer, act, answer_later] {
      if (daemon_ == nullptr) {
        return answer_later(answer, absl::UnavailableError("the daemon is gone"));
      }
      act([this, answer, answer_later, life = lives_](const absl::Status& status) {
        const bool alive = daemon_ != nullptr && life == lives_ && daemon_->works();
        answer_later(answer, alive ? status : absl::UnavailableError("the daemon is gone"));
      });
    });
  };
  reach.update = [this, call](const v1::UpdateRequest& request, auto answer) {
    call(answer, [this, request](auto then) { daemon_->Update(request, then); });
  };
  reach.finish = [this, call](const v1::FinishRequest& request, RingRecord* ring, auto answer) {
    call(answer, [this, request, ring](auto then) {
      daemon_->Finish(request, [ring, then](const absl::Status& status) {
        if (status.ok()) ring->end_acknowledged = true;
        then(status);
      });
    });
  };
  return reach;
}

void Simulation::StartDaemon() {
  if (daemon_ != nullptr) return;
  vfs_.Thaw();
  DaemonLife::Surroundings surroundings{
      .state_dir = dir_ + "/state",
      .vfs = &vfs_,
      .tracker = tracker_.get(),
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
            }
          }};
  auto started = DaemonLife::Start(&world_, surroundings);
  world_.Note("daemon starts: ", std::string(absl::StatusCodeToString(started.status().code())));
  tracker_->ForgetWaits();
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

void Simulation::KillDaemon(const std::string& why) {
  if (daemon_ == nullptr) return;
  world_.Note("daemon dies: ", why);
  ++outcome_.daemon_deaths;
  daemon_.reset();
  vfs_.Thaw();
  world_.After(world_.Delay(100, 5000), [this] { StartDaemon(); });
}

void Simulation::StepDaemon(uint64_t life) {
  if (daemon_ == nullptr || life != lives_) return;
  const absl::Duration wait = daemon_->Step();
  if (!daemon_->works()) return KillDaemon("in the middle of a write");
  if (world_.faults && world_.Chance(daemon_deaths_)) {
    if (world_.Chance(0.4)) return KillDaemon("at rest");
    vfs_.TearWrites(world_.Chance(0.5));
    vfs_.FreezeAt(static_cast<int64_t>(world_.Between(1, 20)));
  }
  const absl::Duration pause = logging_ ? world_.Delay(2, 60) : world_.Delay(20, 200);
  world_.After(std::min(std::max(wait, absl::Milliseconds(2)), pause),
               [this, life] { StepDaemon(life); });
}

void Simulation::KillRank(size_t index) {
  if (ranks_[index] == nullptr) return;
  world_.Note("rank ", index, " dies");
  if (!ranks_[index]->finished()) ++outcome_.rank_deaths;
  for (std::string& path : ranks_[index]->Paths()) left_rings_.push_back(std::move(path));
  ranks_[index].reset();
}

// The node goes down: its memory, and what the disk has not been told to keep.
void Simulation::CutPower() {
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
  for (const auto& ring : oracle_.rings()) ring->lost_with_node = true;
  world_.After(world_.Delay(1000, 5000), [this] { StartDaemon(); });
}

void Simulation::TickRank(size_t index) {
  if (ranks_[index] == nullptr) return;
  ranks_[index]->Tick();
  if (ranks_[index]->finished() && ranks_[index]->done()) return KillRank(index);
  world_.After(world_.Delay(20, 120), [this, index] { TickRank(index); });
}

void Simulation::LogRank(size_t index) {
  if (ranks_[index] == nullptr || !logging_) return;
  for (uint64_t i = world_.Between(1, world_.Chance(0.05) ? 200 : 8); i > 0; --i) {
    ranks_[index]->Log();
  }
  if (world_.Chance(0.1)) ranks_[index]->Configure();
  if (world_.Chance(0.003)) return KillRank(index);
  world_.After(log_pause_ + world_.Delay(0, 50), [this, index] { LogRank(index); });
}

void Simulation::DisturbDisk() {
  if (!world_.faults) return;
  vfs_.Heal();
  if (world_.Chance(disk_faults_)) {
    fault_in_disk_ = true;
    vfs_.TearWrites(world_.Chance(0.5));
    const auto n = static_cast<int64_t>(world_.Between(1, 30));
    const int error = world_.Chance(0.5) ? ENOSPC : EIO;
    const uint64_t kind = world_.Below(3);
    if (kind == 0) vfs_.FailWrites(n, error);
    if (kind == 1) vfs_.FailSyncs(n, error);
    if (kind == 2) vfs_.FailReads(n, EIO);
    world_.Note("the disk fails: ", kind);
    tracker_->ForgetWaits();
  }
  world_.After(world_.Delay(100, 3000), [this] { DisturbDisk(); });
}

void Simulation::EndFaults() {
  world_.Note("the faults end");
  world_.faults = false;
  logging_ = false;
  vfs_.Heal();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i] == nullptr) continue;
    if (world_.Chance(0.25)) {
      KillRank(i);
      continue;
    }
    ranks_[i]->Finish(world_.Chance(0.2) ? 3 : 0);
    if (world_.Chance(0.3)) KillRank(i);  // it did not wait for the daemon
  }
  if (daemon_ == nullptr) StartDaemon();
}

bool Simulation::AllDelivered() {
  if (world_.faults || daemon_ == nullptr) return false;
  if (std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank != nullptr; })) {
    return false;
  }
  for (const std::string& path : left_rings_) {
    if (std::filesystem::exists(path)) return false;
  }
  auto reader = storage::StoreReader::Open(dir_ + "/state");
  if (!reader.ok()) return false;
  const auto streams = (*reader)->LiveStreams();
  const auto pending = (*reader)->PendingDeliveries();
  return streams.ok() && streams->empty() && pending.ok() && pending->empty();
}

void Simulation::Judge() {
  for (const std::string& wrong : tracker_->wrong()) outcome_.wrong.push_back(wrong);
  auto reader = storage::StoreReader::Open(dir_ + "/state");
  if (!reader.ok()) {
    outcome_.wrong.push_back(reader.status().ToString());
    return;
  }
  for (std::string& wrong : oracle_.Judge(**reader, tracker_->server())) {
    outcome_.wrong.push_back(std::move(wrong));
  }
  for (const auto& ring : oracle_.rings()) outcome_.rows += ring->rows.size();
}

Outcome Simulation::Run() {
  const absl::Duration trouble = world_.Delay(3000, 30000);
  if (!world_.Chance(0.2)) StartDaemon();  // else the ranks start first
  world_.After(world_.Delay(0, 3000), [this] { StartDaemon(); });
  for (size_t i = 0; i < ranks_.size(); ++i) {
    world_.After(world_.Delay(0, 500), [this, i] { TickRank(i); });
    world_.After(world_.Delay(0, 500), [this, i] { LogRank(i); });
  }
  world_.After(world_.Delay(0, 2000), [this] { DisturbDisk(); });
  if (world_.Chance(0.15)) {
    world_.After(trouble * 0.9, [this] { CutPower(); });
  }
  world_.After(trouble, [this] { EndFaults(); });

  absl::Duration next_look = absl::ZeroDuration();
  bool delivered = false;
  while (!delivered && world_.age() < trouble + kPatience && world_.Next()) {
    if (world_.faults || world_.age() < next_look) continue;
    next_look = world_.age() + absl::Seconds(5);
    delivered = AllDelivered();
  }
  world_.Note(delivered ? "all is delivered" : "something waits for ever");
  if (!delivered) outcome_.wrong.push_back("something waits for ever");
  // The daemon closes its files before they are judged.
  daemon_.reset();
  vfs_.Thaw();
  Judge();
  outcome_.hash = world_.hash();
  outcome_.trace = world_.trace();
  return outcome_;
}

}  // namespace

Outcome Simulate(uint64_t seed, const std::string& scratch_dir, bool keep_trace) {
  std::string dir = scratch_dir + "/seed-XXXXXX";
  Outcome outcome;
  if (mkdtemp(dir.data()) == nullptr) {
    outcome.seed = seed;
    outcome.wrong = {"no directory"};
    return outcome;
  }
  {
    Simulation simulation(seed, dir, keep_trace);
    outcome = simulation.Run();
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  return outcome;
}

}  // namespace ranklog::simulation
