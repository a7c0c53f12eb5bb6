// The part of SimulatedJob for nodes whose daemons join the ranks in the run of rank 0.

#include <algorithm>
#include <set>
#include <utility>

#include "tests/simulation/simulated_job.h"

namespace ranklog::simulation {

void SimulatedJob::SetUpPeers(uint32_t nodes, SimulatedNode::Options* node) {
  node->rank.strategy = v1::LOG_STRATEGY_MAIN;
  node->rank.ranks = static_cast<uint32_t>(world_.Between(nodes, nodes + 3));
  oracle_.joined_ranks = node->rank.ranks;
  oracle_.one_launcher = outcome_.seed % 2 == 1;
  network_ = std::make_unique<PeerNetwork>(&world_, nodes);
  node->network = network_.get();
  watch_ = std::make_unique<JoinWatch>(&world_, network_.get());
  if (world_.faults && world_.Chance(0.3)) {
    slow_ = node->pauses = true;
    node->log_pause = world_.Delay(400, 3000);
  }
}

// The nodes begin in any order. They are cut off now and then, and some leave.
void SimulatedJob::StartPeers(absl::Duration trouble, absl::Duration pause) {
  network_->SetHome([this](const v1::PushRequest& request, PeerNetwork::Answer answer) {
    DaemonLife* const home = nodes_[0]->daemon();
    if (home == nullptr || !home->works()) return false;
    home->Push(request, std::move(answer));
    return true;
  });
  const bool calm = !world_.faults;
  const auto within = [this](absl::Duration span) { return span * (world_.Below(1000) / 1000.0); };
  // Before a resumed job ends, and before the faults end.
  resumed_within_ = (trouble - pause) / 2 * 0.8;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    SimulatedNode* const node = nodes_[i].get();
    const bool soon = calm || world_.Chance(0.6);
    world_.After(soon ? world_.Delay(0, 1000) : within(resumed_within_),
                 [node] { node->Start(0); });
    if (i > 0 && !calm) network_->CutNowAndThen(i);
  }
  if (!calm && world_.Chance(0.25)) {
    SimulatedNode* const node = nodes_[world_.Between(1, nodes_.size() - 1)].get();
    if (world_.Chance(0.5)) {
      world_.After(within(trouble), [node] { node->Leave(); });
      world_.After(trouble + world_.Delay(0, 180'000), [node] { node->Return(); });
    } else {
      world_.After(within(trouble), [node] { node->LeaveForEver(); });
    }
  }
  LookAtHome();
}

void SimulatedJob::ResumePeers(int64_t step) {
  for (const auto& each : nodes_) {
    const absl::Duration wait =
        world_.Chance(0.5) ? world_.Delay(0, 500) : resumed_within_ * (world_.Below(1000) / 1000.0);
    world_.After(std::min(wait, resumed_within_),
                 [node = each.get(), step] { node->ResumeRanks(step); });
  }
}

// In some seeds, the ranks of one node live longer than those of others. Meanwhile they are silent.
void SimulatedJob::EndFaultsOfPeers() {
  const bool together = oracle_.expect_no_late_rows || world_.Chance(0.5);
  for (const auto& each : nodes_) {
    SimulatedNode* const node = each.get();
    const bool later = !together && world_.Chance(0.5);
    node->EndFaults(/*end_ranks=*/!later);
    if (later) world_.After(world_.Delay(0, 100'000), [node] { node->EndRanks(); });
  }
  if (!together && world_.Chance(0.5)) {
    world_.After(world_.Delay(0, 50'000), [this] { nodes_[0]->RestartDaemon(); });
  }
}

void SimulatedJob::LookAtHome() {
  if (const auto store = nodes_[0]->OpenStore(); store.ok()) {
    watch_->Look(**store, nodes_[0]->daemon() == nullptr ? 0 : nodes_[0]->lives());
  }
  world_.After(absl::Seconds(1), [this] { LookAtHome(); });
}

// Whether the home has the rows of all parts. A home that lost the ring of rank 0 in a power cut
// never takes those of its start, so at some time they are judged as they are.
bool SimulatedJob::Joined(absl::Duration since_trouble) const {
  return network_ == nullptr || since_trouble > absl::Minutes(10) ||
         std::all_of(nodes_.begin() + 1, nodes_.end(),
                     [](const auto& node) { return node->gone() || node->Joined(); });
}

void SimulatedJob::JudgePeers() {
  for (const std::string& wrong : watch_->wrong()) outcome_.wrong.push_back(wrong);
  std::set<uint32_t> gone;
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node]->gone()) gone.insert(node);
  }
  for (std::string& wrong : oracle_.JudgeJoined(gone)) outcome_.wrong.push_back(std::move(wrong));
}

}  // namespace ranklog::simulation
