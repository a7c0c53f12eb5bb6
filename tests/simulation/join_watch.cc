#include "tests/simulation/join_watch.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ranklog::simulation {
namespace {

constexpr absl::Duration kPeerWait = absl::Seconds(30);  // as LiveRun::Options::peer_wait
constexpr absl::Duration kSlack = absl::Seconds(12);     // of retries, rounds and looks

uint32_t NodeOf(const model::Stream& stream) {
  uint32_t node = 0;
  return absl::SimpleAtoi(stream.peer.substr(4), &node) ? node : 0;  // "node1"
}

}  // namespace

bool IsLost(const model::Stream& stream) {
  return !stream.peer.empty() && absl::StrContains(stream.reason, "not heard of");
}

void JoinWatch::Look(storage::StoreReader& home, uint64_t life) {
  const auto runs = home.Runs();
  if (!runs.ok()) return;
  const bool same_life = life != 0 && life == life_;
  life_ = life;
  for (const model::Run& run : *runs) {
    if (!run.primary_chosen || run.local_only) continue;
    Watched& watched = runs_[run.id];
    if (!same_life || world_.faults) {
      watched.quiet_since = world_.now();
      watched.silent_since.clear();
    }
    LookAt(home, run, &watched);
  }
}

void JoinWatch::JudgeSilence(const model::Run& run, const model::Stream& stream, bool* heard,
                             Watched* watched) {
  if (stream.state != model::StreamState::kLive) return;
  const absl::Time now = world_.now();
  const absl::Time last = network_.LastHeard(NodeOf(stream));
  if (last > now - kPeerWait) *heard = true;
  absl::Time& since = watched->silent_since.try_emplace(stream.id, now).first->second;
  since = std::max(since, last);
  if (now - since < kPeerWait + kSlack || watched->reported) return;
  watched->reported = true;
  wrong_.push_back(absl::StrCat(run.run_id, " waits longer than 30 s for rank ", stream.key.rank));
}

void JoinWatch::LookAt(storage::StoreReader& home, const model::Run& run, Watched* watched) {
  const auto streams = home.Streams(run.id);
  if (!streams.ok()) return;
  const absl::Time now = world_.now();
  bool own_live = false;
  bool heard = false;
  for (const model::Stream& stream : *streams) {
    const bool live = stream.state == model::StreamState::kLive;
    own_live |= live && stream.peer.empty();
    if (!stream.peer.empty()) JudgeSilence(run, stream, &heard, watched);
    if (!IsLost(stream) || !watched->lost.insert(stream.id).second) continue;
    world_.Note("the home ends rank ", stream.key.rank, " as lost");
    // The commit may have been delayed by some seconds. A request names only some of the streams, but
    // each one every 5 s.
    const absl::Time middle = now - kPeerWait / 2;
    if (network_.HeardBetween(NodeOf(stream), now - kPeerWait + absl::Seconds(3), middle) &&
        network_.HeardBetween(NodeOf(stream), middle, now - absl::Seconds(5))) {
      wrong_.push_back(absl::StrCat(run.run_id, ": rank ", stream.key.rank,
                                    " was ended as lost, though its node was heard"));
    }
    if (watched->own_live && own_live) {
      wrong_.push_back(absl::StrCat(run.run_id, ": rank ", stream.key.rank,
                                    " was ended as lost, though ranks of the home are live"));
    }
  }
  if (own_live) watched->silent_since.clear();
  watched->own_live = own_live;
  if (own_live || heard || run.state != model::RunState::kRunning) watched->quiet_since = now;
  if (now - watched->quiet_since < kPeerWait + kSlack || watched->reported) return;
  watched->reported = true;
  wrong_.push_back(absl::StrCat(run.run_id, " waits longer than 30 s for other nodes"));
}

}  // namespace ranklog::simulation
