// How the ranks of a node start, die and restart.

#include <algorithm>
#include <memory>
#include <utility>

#include "service/ingest/ring/content_dir.h"
#include "tests/simulation/simulated_node.h"

namespace ranklog::simulation {

void SimulatedNode::StartRank(size_t index, int64_t step) {
  if (left_) return;
  const uint64_t process = ++processes_[index];
  RankOptions rank = options_.rank;
  rank.rank += static_cast<uint32_t>(index) * options_.rank_stride;
  rank.local_rank = static_cast<uint32_t>(index);
  rank.rings = process == 1 ? options_.rings[index]
                            : static_cast<uint32_t>(world_.Between(1, options_.rings[index]));
  rank.children = options_.children;
  rank.process = process;
  rank.began_us = static_cast<uint64_t>(absl::ToUnixMicros(world_.now()));
  rank.init_us = absl::ToUnixMicros(wall_clock_.now());
  rank.pid = 1000 + rank.rank + (options_.same_pids ? 0 : 100 * process);
  rank.start = start_;
  rank.must_continue |= start_ > 0 && !options_.must_not_continue;
  rank.first_step = step;
  rank.spool_dir = options_.dir + "/spool";
  rank.content_dir = ingest::ContentDir::PathIn(options_.dir + "/state");
  rank.wall_clock = &wall_clock_;
  if (process > 1) {
    world_.Note("rank ", rank.rank, " begins anew at step ", step);
    NoteWhatEnded(rank.rank);
  }
  ranks_[index] = std::make_unique<Rank>(&world_, &oracle_, &reach_, rank);
  world_.After(world_.Delay(0, 500), [this, index, process] { TickRank(index, process); });
  world_.After(world_.Delay(0, 500), [this, index, process] { LogRank(index, process); });
}

// Suppose that the daemon has seen the end of a process before the rank's next one begins. Then
// that process does not count for the end of the run. For others, the daemon cannot know which came
// first.
void SimulatedNode::NoteWhatEnded(uint32_t rank) {
  const auto reader = OpenStore();
  if (!reader.ok()) return;
  const auto runs = (*reader)->Runs();
  if (!runs.ok()) return;
  for (const model::Run& run : *runs) {
    const auto streams = (*reader)->Streams(run.id);
    if (!streams.ok()) return;
    for (const model::Stream& stream : *streams) {
      if (stream.key.rank != rank || stream.state == model::StreamState::kLive) continue;
      for (const auto& ring : oracle_.rings()) {
        if (ring->incarnation == stream.key.incarnation) ring->ended_before_next = true;
      }
    }
  }
}

void SimulatedNode::KillRank(size_t index) {
  if (ranks_[index] == nullptr) return;
  world_.Note("rank ", index, " dies");
  if (!ranks_[index]->finished()) ++outcome_.rank_deaths;
  for (std::string& path : ranks_[index]->Paths()) left_rings_.push_back(std::move(path));
  ranks_[index].reset();
}

bool SimulatedNode::EndChild(size_t index, bool exited) {
  std::string path = ranks_[index]->EndChild(exited);
  if (path.empty()) return false;
  left_rings_.push_back(std::move(path));
  return true;
}

void SimulatedNode::TickRank(size_t index, uint64_t process) {
  if (ranks_[index] == nullptr || processes_[index] != process) return;
  ranks_[index]->Tick();
  while (EndChild(index, /*exited=*/true)) {
  }
  if (ranks_[index]->finished() && ranks_[index]->done()) return KillRank(index);
  world_.After(world_.Delay(20, 120), [this, index, process] { TickRank(index, process); });
}

void SimulatedNode::LogRank(size_t index, uint64_t process) {
  if (ranks_[index] == nullptr || processes_[index] != process || !logging_) return;
  const bool burst = options_.bursts && world_.Chance(0.05);
  for (uint64_t i = world_.Between(1, burst ? 200 : 8); i > 0; --i) ranks_[index]->Log();
  if (world_.Chance(0.1)) ranks_[index]->Configure(/*last=*/false);
  if (options_.uploads && world_.Chance(0.1)) ranks_[index]->Upload();
  if (options_.children > 0 && world_.Chance(0.01)) {
    world_.Note("a child of rank ", index, " dies: ", EndChild(index, /*exited=*/false));
  }
  if (world_.faults && world_.Chance(options_.rank_deaths)) {
    const bool finished = ranks_[index]->finished();  // a launcher does not restart it then
    KillRank(index);
    if (!finished) RestartRank(index, process);
    return;
  }
  const bool pauses = options_.pauses && world_.Chance(0.02);
  world_.After(options_.log_pause + world_.Delay(0, 50) +
                   (pauses ? world_.Delay(5000, 50'000) : absl::ZeroDuration()),
               [this, index, process] { LogRank(index, process); });
}

// After a while, a launcher may restart a dead rank, at its last step or some steps before.
void SimulatedNode::RestartRank(size_t index, uint64_t process) {
  if (!world_.Chance(options_.restarts)) return;
  world_.After(world_.Delay(100, 4000), [this, index, process] {
    if (!logging_ || ranks_[index] != nullptr || processes_[index] != process) return;
    const int64_t last = oracle_.LastStep();
    StartRank(index, std::max<int64_t>(last - static_cast<int64_t>(world_.Below(40)), 0));
  });
}

void SimulatedNode::EndRanks() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i] == nullptr) continue;
    if (world_.Chance(0.25)) {
      KillRank(i);
      continue;
    }
    if (world_.Chance(0.5)) ranks_[i]->Configure(/*last=*/true);
    ranks_[i]->Finish(world_.Chance(0.2) ? 3 : 0);
    if (world_.Chance(0.3)) KillRank(i);  // without waiting for the daemon
  }
}

void SimulatedNode::ResumeRanks(int64_t step) {
  ++start_;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    KillRank(i);
    StartRank(i, step);
  }
}

}  // namespace ranklog::simulation
