// The part of Oracle that judges the streams that another node's daemon sent to the home.

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/simulation/join_watch.h"
#include "tests/simulation/oracle.h"

namespace ranklog::simulation {
namespace {

std::string Who(const RingRecord& ring) {
  return absl::StrCat("rank ", ring.rank, " thread ", ring.thread, " of process ", ring.process,
                      " at node ", ring.node, ": ");
}

}  // namespace

void Oracle::KnowStreams(uint32_t node, storage::StoreReader& reader, const model::Run& run) {
  const auto streams = reader.Streams(run.id);
  if (!streams.ok()) return;
  for (const model::Stream& stream : *streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr) continue;
    if (node != 0) {
      parts_[ring->incarnation] = stream;
    } else if (!stream.peer.empty()) {
      at_home_[ring->incarnation] = stream;
    } else if (stream.primary && !run.local_only) {
      home_starts_.insert(ring->start);
    }
  }
}

// A stream that is in the run of another start went there by a guess. That is right only if nothing
// told the home's daemon that it is of another start: an earlier stream of this node or, if one
// launcher starts all nodes, of any other node.
void Oracle::JudgeStart(const model::Stream& stream, const RingRecord& ring) {
  const auto start = starts_.find(stream.job_id);  // from rank 0, which comes first
  std::vector<model::Stream>& others = peers_of_[stream.job_id];
  others.push_back(stream);
  if (start == starts_.end()) return Wrong(Who(ring), "is in a job without rank 0");
  for (const model::Stream& one : others) {
    if (RingOf(one)->start == start->second) continue;
    for (const model::Stream& other : others) {
      const RingRecord* const known = RingOf(other);
      const bool tells = known->start == start->second && other.id < one.id &&
                         (one_launcher || known->node == RingOf(one)->node);
      if (tells) Wrong(Who(*RingOf(one)), "is in the run of start ", start->second);
    }
  }
}

// A stream of another node in the run of rank 0.
void Oracle::JudgeStreamOfPeer(storage::StoreReader& reader, const model::Stream& stream,
                               const RingRecord& ring) {
  const std::string who = Who(ring);
  if (stream.peer != absl::StrCat("node", ring.node)) Wrong(who, "came from ", stream.peer);
  if (stream.primary) Wrong(who, "is primary at home");
  JudgeStart(stream, ring);
  if (stream.state == model::StreamState::kLive) Wrong(who, "is live at home for ever");
  if (stream.durable_seq > ring.rows.size()) {
    return Wrong(who, "the home has ", stream.durable_seq, " rows of ", ring.rows.size());
  }
  if (stream.aggregated_seq != stream.durable_seq) {
    Wrong(who, "the home used only ", stream.aggregated_seq, " of ", stream.durable_seq, " rows");
  }
  if (stream.losses.with_store > 0) {
    Wrong(who, "the home counts ", stream.losses.with_store, " rows as lost");
  }
  if (expect_no_late_rows && stream.late_rows > 0) {
    Wrong(who, stream.late_rows, " rows are late, though the network is well");
  }
  JudgeRaw(reader, stream, ring);
}

std::vector<std::string> Oracle::JudgeJoined(const std::set<uint32_t>& gone) {
  wrong_.clear();
  for (const auto& [incarnation, part] : parts_) {
    const RingRecord& ring = *RingOf(part);
    const std::string who = Who(ring);
    const auto found = at_home_.find(incarnation);
    const model::Stream* const home = found == at_home_.end() ? nullptr : &found->second;
    if (!part.peer.empty()) Wrong(who, "came to a node without rank 0");
    if (home != nullptr && home->durable_seq > part.durable_seq) {
      Wrong(who, "the home has ", home->durable_seq, " rows, its node ", part.durable_seq);
    }
    if (gone.contains(ring.node)) continue;
    switch (part.joined) {
      case model::Joined::kOpen:
        if (home_starts_.contains(ring.start)) Wrong(who, "is neither whole nor late");
        break;
      case model::Joined::kLate:
        if (expect_no_late_rows) Wrong(who, "is late, though the network is well");
        if (home != nullptr && !IsLost(*home)) Wrong(who, "is late, though it ended at home");
        break;
      case model::Joined::kWhole:
        if (home == nullptr) {
          Wrong(who, "counts as whole, and is not at home");
          break;
        }
        if (home->durable_seq != part.durable_seq) {
          Wrong(who, "counts as whole; the home has ", home->durable_seq, " rows of ",
                part.durable_seq);
        }
        if (home->late_rows != part.joined_late) {
          Wrong(who, "has ", home->late_rows, " late rows at home, and its node counts ",
                part.joined_late);
        }
        if (IsLost(*home)) break;
        if (home->state != part.state || home->exit_code != part.exit_code ||
            home->reason != part.reason) {
          Wrong(who, "ended otherwise at home");
        }
        if (home->losses.total() != part.losses.total()) Wrong(who, "has other losses at home");
    }
  }
  return wrong_;
}

}  // namespace ranklog::simulation
