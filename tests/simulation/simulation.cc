#include "tests/simulation/simulation.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/simulated_node.h"

namespace ranklog::simulation {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(30);  // of the simulated world, without faults

}  // namespace

SimulatedNode::SimulatedNode(uint64_t seed, const std::string& dir, bool keep_trace)
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

Daemon SimulatedNode::Reach() {
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

bool SimulatedNode::AllDelivered() {
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

void SimulatedNode::Judge() {
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

Outcome SimulatedNode::Run() {
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

Outcome Simulate(uint64_t seed, const std::string& scratch_dir, bool keep_trace) {
  std::string dir = scratch_dir + "/seed-XXXXXX";
  Outcome outcome;
  if (mkdtemp(dir.data()) == nullptr) {
    outcome.seed = seed;
    outcome.wrong = {"no directory"};
    return outcome;
  }
  {
    SimulatedNode node(seed, dir, keep_trace);
    outcome = node.Run();
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  return outcome;
}

}  // namespace ranklog::simulation
