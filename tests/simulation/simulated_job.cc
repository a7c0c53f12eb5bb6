#include "tests/simulation/simulated_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ranklog::simulation {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(30);  // of simulated time without faults

// Gives one of the metrics that all ranks log, "shared" and "loss", other statistics than the rest.
void SetRules(uint64_t choice, RankOptions* rank) {
  switch (choice % 4) {
    case 0:
      rank->rank_statistic_rules = {"sha*=max,argmax", "*=none"};
      return;
    case 1:
      rank->rank_statistic_rules = {"loss=mean,max", "*=none"};
      return;
    case 2:
      rank->rank_statistic_rules = {"l*ss=none", "s*=min", "shared=mean"};  // the first one counts
      return;
    default:
      rank->rank_statistic_rules = {"*oss=std"};
      rank->rank_statistics = {"none"};
  }
}

}  // namespace

SimulatedJob::SimulatedJob(uint64_t seed, const std::string& dir, bool keep_trace) : world_(seed) {
  world_.keep_trace = keep_trace;
  outcome_.seed = seed;
  // Sometimes only the clocks are wrong: then no row may be late.
  const bool calm = world_.Chance(0.1);
  world_.faults = !calm;
  oracle_.expect_no_late_rows = calm;
  Tracker::Options tracker;
  tracker.fault = world_.Chance(0.2) ? 0 : 0.3;
  tracker.poison = world_.Chance(0.3);
  if (world_.Chance(0.3)) tracker.max_body = 80 << 10;
  SimulatedNode::Options node;
  node.dir = dir;
  node.log_pause = world_.Delay(5, 400);
  node.disk_faults = world_.Chance(0.5) ? 0.3 : 0;
  oracle_.disk_fails = node.disk_faults > 0;
  node.daemon_deaths = world_.Chance(0.7) ? 0.004 : 0;
  node.clock_steps = calm || world_.Chance(0.3);
  node.bursts = !calm;
  node.restarts = world_.Chance(0.5) ? 0.7 : 0;
  node.same_pids = world_.Chance(0.5);
  resumes_ = !calm && world_.Chance(0.25);
  const v1::LogStrategy strategies[] = {v1::LOG_STRATEGY_MAIN, v1::LOG_STRATEGY_NODE,
                                        v1::LOG_STRATEGY_ALL};
  node.rank.ranks = static_cast<uint32_t>(world_.Between(1, 4));
  node.rank.strategy = strategies[world_.Below(3)];
  node.rank.explicit_steps = world_.Chance(0.5);
  node.rank.defines_last = world_.Chance(0.5);
  node.rank.poison = tracker.poison;
  // In some seeds, delivered runs are removed at once, while other ranks still log. A run that
  // continues after its removal is like a run on another node, which the oracle does not judge. So
  // each rank has a run, and none restarts.
  if (seed % 10 == 9 && seed < kPeerSeeds) {
    node.removes = true;
    node.rank.strategy = v1::LOG_STRATEGY_ALL;
    node.clock_steps = false;
    node.restarts = 0;
    resumes_ = false;
  }
  // In other seeds, each run continues again and again, sometimes while its end is in flight.
  if (seed % 10 == 8 && seed < kPeerSeeds) {
    reopens_ = node.reopens = tracker.slow_end = true;
    node.rank.strategy = v1::LOG_STRATEGY_ALL;
    node.rank_deaths = 0.1;
    node.restarts = 1;
    resumes_ = false;
  }
  // Seeds from kUploadSeeds on have uploads, so that the others keep their path.
  if (seed >= kUploadSeeds && seed < kPeerSeeds) {
    node.uploads = true;
    node.clock_steps = false;  // by a clock that is wrong by weeks, a staged file is left over
  }
  uint32_t nodes = node.rank.ranks > 1 && world_.Chance(0.3) ? 2 : 1;
  if (seed >= kPeerSeeds) {
    nodes = world_.Chance(0.6) ? 2 : static_cast<uint32_t>(world_.Between(3, 4));
    SetUpPeers(nodes, &node);
  }
  // The rows' times tell which are newest, so no clock is set.
  moves_ = nodes == 1 && resumes_ && !node.clock_steps && world_.Chance(0.5);
  oracle_.moves = tracker.several_stores = moves_;
  // These draw no random number.
  const bool resumed = moves_ && seed % 2 == 1;
  oracle_.resumed_elsewhere = resumed;
  node.rank.must_continue = resumed && seed % 4 == 1;  // like a script that always sets `resume`
  tracker_ = std::make_unique<Tracker>(&world_, tracker);
  for (uint32_t i = 0; i < nodes; ++i) AddNode(node, i, i, nodes);
  node.rank.must_continue = node.rank.resumed = resumed;
  if (moves_) AddNode(node, 1, 0, 1);
}

// Either the first nodes have the first ranks, or the ranks are cyclic over the nodes. This draws
// no random number, so that seeds of the first kind keep their path.
void SimulatedJob::AddNode(SimulatedNode::Options node, uint32_t index, uint32_t part,
                           uint32_t parts) {
  node.dir = absl::StrCat(node.dir, "/node", index);
  node.must_not_continue = outcome_.seed % 2 == 0;  // draws none either
  node.rank.node = index;
  if (network_ != nullptr) {
    // torchrun is a launch of its own on each node; srun is one launch on all nodes.
    if (!oracle_.one_launcher) node.rank.launcher = absl::StrCat("node", index, " ");
    if (index > 0) node.rank.boot_id = absl::StrCat("boot of node ", index);
    node.must_not_continue = outcome_.seed % 4 < 2;
  }
  const bool cyclic = outcome_.seed % 3 == 1;
  node.rank.counted = outcome_.seed % 6 != 4;
  node.rank.equal_until = static_cast<int64_t>(outcome_.seed % 5) * 5;
  if (outcome_.seed % 4 < 2) {
    node.rank.rank_statistics = {"mean", "min", "max", "std", "argmin", "argmax"};
  }
  if (outcome_.seed % 8 == 7) SetRules(outcome_.seed / 8, &node.rank);
  if (outcome_.seed % 4 == 3 && world_.faults && !node.removes) {
    node.children = 1 + static_cast<uint32_t>(outcome_.seed / 4 % 8);
  }
  // the daemon does not wait for unknown ranks
  if (!node.rank.counted) oracle_.expect_no_late_rows = false;
  node.rank.rank = cyclic ? part : node.rank.ranks * part / parts;
  node.rank_stride = cyclic ? parts : 1;
  node.rank.ranks_of_node = cyclic ? (node.rank.ranks + parts - 1 - part) / parts
                                   : node.rank.ranks * (part + 1) / parts - node.rank.rank;
  for (uint32_t i = 0; i < node.rank.ranks_of_node; ++i) {
    node.rings.push_back(world_.faults && !node.removes && world_.Chance(0.3) ? 2 : 1);
  }
  nodes_.push_back(
      std::make_unique<SimulatedNode>(&world_, &oracle_, tracker_.get(), &outcome_, node));
}

bool SimulatedJob::Delivered() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return node->gone() || node->Delivered(); });
}

void SimulatedJob::Judge() {
  for (const std::string& wrong : tracker_->wrong()) outcome_.wrong.push_back(wrong);
  for (const std::string& wrong : tracker_->server().errors()) outcome_.wrong.push_back(wrong);
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (const auto reader = nodes_[node]->OpenStore(); reader.ok())
      oracle_.Know(node, **reader, *tracker_);
  }
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node]->gone()) continue;
    const auto reader = nodes_[node]->OpenStore();
    if (!reader.ok()) {
      outcome_.wrong.push_back(reader.status().ToString());
      return;
    }
    for (std::string& wrong : oracle_.Judge(node, **reader, nodes_[node]->removed(), *tracker_)) {
      outcome_.wrong.push_back(std::move(wrong));
    }
  }
  if (network_ != nullptr) JudgePeers();
  for (const auto& ring : oracle_.rings()) outcome_.rows += ring->rows.size();
}

void SimulatedJob::EndJob() {
  world_.Note("the job ends");
  if (moves_) {
    tracker_->Forget(0);
    return nodes_[0]->Leave();
  }
  for (const auto& node : nodes_) node->EndRanks();
}

// Resumes from the last step, from a checkpoint before it, or from the beginning.
void SimulatedJob::ResumeJob() {
  world_.Note("the job is resumed");
  // In some seeds, the checkpoint is one that the tracker has.
  const bool from_tracker = oracle_.resumed_elsewhere && outcome_.seed % 4 == 3;
  const int64_t last = from_tracker ? tracker_->LastStep() : oracle_.LastStep();
  const int64_t back = world_.Chance(0.5) ? -1 : static_cast<int64_t>(world_.Below(100));
  const int64_t step = world_.Chance(0.1) ? 0 : std::max<int64_t>(last - back, 0);
  if (moves_) {
    nodes_[1]->Start(step);
    return world_.After(world_.Delay(0, 60000), [this] { ReturnToFirstNode(); });
  }
  if (network_ != nullptr) return ResumePeers(step);
  for (const auto& node : nodes_) node->ResumeRanks(step);
}

// The first node's daemon comes back for another job. Before the tracker has a row of the second
// node, nobody can tell that the run continues there.
void SimulatedJob::ReturnToFirstNode() {
  if (SecondNodeFeeds()) return nodes_[0]->Return();
  world_.After(absl::Seconds(1), [this] { ReturnToFirstNode(); });
}

bool SimulatedJob::SecondNodeFeeds() const {
  if (nodes_[1]->Delivered()) return true;
  const auto first = nodes_[0]->OpenStore();
  const auto second = nodes_[1]->OpenStore();
  if (!first.ok() || !second.ok()) return false;
  const auto runs = (*first)->Runs();
  const auto continued = (*second)->Runs();
  if (!runs.ok() || !continued.ok()) return false;
  return std::all_of(runs->begin(), runs->end(), [&](const model::Run& run) {
    return std::any_of(continued->begin(), continued->end(), [&](const model::Run& other) {
      const auto deliveries = (*second)->Deliveries(other.id);
      if (other.run_id != run.run_id || !deliveries.ok() || deliveries->empty()) return false;
      const model::Delivery& delivery = deliveries->front();
      return delivery.complete || delivery.delivered_rows > delivery.replayed_rows();
    });
  });
}

SeedResult SimulatedJob::Run() {
  const absl::Duration pause = resumes_ ? world_.Delay(100, 30000) : absl::ZeroDuration();
  absl::Duration trouble = world_.Delay(3000, 30000) + pause;
  if (slow_) trouble += world_.Delay(10'000, 90'000);
  if (network_ != nullptr) {
    StartPeers(trouble, pause);
  } else {
    nodes_[0]->Start(0);
    if (nodes_.size() > 1 && !moves_) nodes_[1]->Start(0);
  }
  if (resumes_) {
    world_.After((trouble - pause) / 2, [this] { EndJob(); });
    world_.After((trouble + pause) / 2, [this] { ResumeJob(); });
  }
  if (world_.Chance(0.15) && world_.faults && !reopens_) {
    world_.After(trouble * 0.9, [this] { nodes_[world_.Below(nodes_.size())]->CutPower(); });
  }
  bool trouble_over = false;
  world_.After(trouble, [this, &trouble_over] {
    world_.Note("the faults end");
    world_.faults = false;
    trouble_over = true;
    if (network_ != nullptr) return EndFaultsOfPeers();
    for (const auto& node : nodes_) node->EndFaults(/*end_ranks=*/true);
  });

  absl::Duration next_look = absl::ZeroDuration();
  bool delivered = false;
  while (!delivered && world_.age() < trouble + kPatience && world_.Next()) {
    if (!trouble_over || world_.age() < next_look) continue;
    next_look = world_.age() + absl::Seconds(5);
    delivered = Delivered() && Joined(world_.age() - trouble);
  }
  world_.Note(delivered ? "all is delivered" : "something waits for ever");
  if (!delivered) outcome_.wrong.push_back("something waits for ever");
  for (const auto& node : nodes_) node->Close();
  Judge();
  outcome_.hash = world_.hash();
  outcome_.trace = world_.trace();
  return outcome_;
}

}  // namespace ranklog::simulation
