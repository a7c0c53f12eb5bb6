#include "service/ingest/stream_registry.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ring/spool_reader.h"

namespace ranklog::ingest {
namespace {

// Its Run is finished or destroyed, and the process may have created another Run.
bool HasFinished(const LiveStream& live) {
  if (live.ring == nullptr) return false;
  const absl::StatusOr<SpoolReader> ring = SpoolReader::Open(live.ring->fd());
  return ring.ok() && ring->finished();
}

// The process is known to have ended, and the ring to be complete.
bool IsLeft(const LiveStream& live) {
  return live.peer != nullptr && live.peer->pidfd.valid() && live.peer->exited() &&
         live.ring != nullptr && !live.ring->locked();
}

}  // namespace

void StreamRegistry::AddKnown(const model::Stream& stream, std::shared_ptr<const RingFile> ring) {
  absl::MutexLock lock(&mutex_);
  streams_.try_emplace(stream.key, LiveStream{.key = stream.key,
                                              .id = stream.id,
                                              .run = stream.run,
                                              .pid = stream.identity.pid,
                                              .process = stream.launch.process,
                                              .durable_seq = stream.durable_seq,
                                              .durable_item = stream.durable_item,
                                              .ring = std::move(ring),
                                              .peer = nullptr});
}

uint64_t StreamRegistry::Attach(const model::Stream& stream, std::shared_ptr<const RingFile> ring,
                                std::shared_ptr<const Peer> peer) {
  uint64_t attachment = 0;
  {
    absl::MutexLock lock(&mutex_);
    LiveStream& live = streams_[stream.key];
    live.key = stream.key;
    live.id = stream.id;
    live.run = stream.run;
    live.pid = stream.identity.pid;
    live.process = stream.launch.process;
    live.durable_seq = stream.durable_seq;
    live.durable_item = stream.durable_item;
    if (ring != nullptr) live.ring = std::move(ring);
    live.peer = std::move(peer);
    live.attachment = attachment = ++last_attachment_;
  }
  on_change_();
  return attachment;
}

uint64_t StreamRegistry::BeginReading(const model::StreamKey& key,
                                      std::shared_ptr<const RingFile> ring,
                                      std::shared_ptr<const Peer> peer) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(key);
  if (found == streams_.end()) return 0;
  LiveStream& live = found->second;
  live.ring = std::move(ring);
  if (peer != nullptr) live.peer = std::move(peer);
  return live.attachment = ++last_attachment_;
}

void StreamRegistry::Detach(const model::StreamKey& key, uint64_t attachment) {
  {
    absl::MutexLock lock(&mutex_);
    auto found = streams_.find(key);
    if (found == streams_.end() || found->second.attachment != attachment) return;
    found->second.attachment = 0;
  }
  on_change_();
}

void StreamRegistry::SetDurable(const model::StreamKey& key, uint64_t durable_seq,
                                uint64_t durable_item) {
  absl::MutexLock lock(&mutex_);
  auto found = streams_.find(key);
  if (found == streams_.end()) return;
  found->second.durable_seq = std::max(found->second.durable_seq, durable_seq);
  found->second.durable_item = std::max(found->second.durable_item, durable_item);
}

void StreamRegistry::Remove(const model::StreamKey& key) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(key);
}

void StreamRegistry::Finish(const model::StreamKey& key, const model::Losses& losses) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(key);
    if (found == streams_.end()) return;
    LiveStream& live = found->second;
    if (live.ring != nullptr) {
      finished_.push_back({live.id, std::move(live.ring), std::move(live.peer), losses});
    }
    streams_.erase(found);
  }
  on_change_();
}

std::vector<FinishedStream> StreamRegistry::TakeReleased() {
  absl::MutexLock lock(&mutex_);
  const size_t kept = std::min(finished_.size(), kMaxFinished);
  const auto released =
      std::stable_partition(finished_.end() - static_cast<std::ptrdiff_t>(kept), finished_.end(),
                            [](const FinishedStream& stream) { return !stream.ring->locked(); });
  std::vector<FinishedStream> taken(std::make_move_iterator(finished_.begin()),
                                    std::make_move_iterator(released));
  finished_.erase(finished_.begin(), released);
  return taken;
}

void StreamRegistry::PutBack(FinishedStream stream) {
  absl::MutexLock lock(&mutex_);
  finished_.insert(finished_.begin(), std::move(stream));
}

absl::optional<LiveStream> StreamRegistry::Find(const model::StreamKey& key) const {
  absl::MutexLock lock(&mutex_);
  auto found = streams_.find(key);
  if (found == streams_.end()) return absl::nullopt;
  return found->second;
}

absl::optional<LiveStream> StreamRegistry::FindIncarnation(uint64_t incarnation) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, live] : streams_) {
    if (key.incarnation == incarnation) return live;
  }
  return absl::nullopt;
}

std::vector<LiveStream> StreamRegistry::Detached() const {
  absl::MutexLock lock(&mutex_);
  std::vector<LiveStream> detached;
  for (const auto& [key, live] : streams_) {
    if (live.attachment == 0 || IsLeft(live)) detached.push_back(live);
  }
  return detached;
}

std::vector<std::shared_ptr<const Peer>> StreamRegistry::PeersToWatch() const {
  std::vector<std::shared_ptr<const Peer>> peers;
  for (LiveStream& live : Detached()) peers.push_back(std::move(live.peer));
  absl::MutexLock lock(&mutex_);
  for (const FinishedStream& finished : finished_) peers.push_back(finished.peer);
  std::erase_if(peers, [](const auto& peer) { return peer == nullptr || !peer->pidfd.valid(); });
  return peers;
}

std::vector<LiveStream> StreamRegistry::OthersOf(const model::StreamKey& key) const {
  absl::MutexLock lock(&mutex_);
  std::vector<LiveStream> others;
  // Keys are ordered by rank before incarnation.
  const model::StreamKey first = {key.project, key.job_id, key.rank, /*incarnation=*/0};
  for (const auto* streams : {&streams_, &attaching_}) {
    for (auto i = streams->lower_bound(first); i != streams->end(); ++i) {
      if (!IsSameRank(i->first, key)) break;
      if (i->first.incarnation != key.incarnation) others.push_back(i->second);
    }
  }
  return others;
}

bool StreamRegistry::HasProcess(const std::string& process) const {
  if (process.empty()) return false;
  absl::MutexLock lock(&mutex_);
  return std::any_of(streams_.begin(), streams_.end(),
                     [&](const auto& stream) { return stream.second.process == process; });
}

bool StreamRegistry::HasAttached(const std::string& process) const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return stream.second.process == process && stream.second.attachment != 0;
  });
}

void StreamRegistry::BeginAttaching(LiveStream live) {
  absl::MutexLock lock(&mutex_);
  attaching_[live.key] = std::move(live);
}

void StreamRegistry::EndAttaching(const model::StreamKey& key) {
  absl::MutexLock lock(&mutex_);
  attaching_.erase(key);
}

bool StreamRegistry::MustWaitForPredecessor(const model::StreamKey& key,
                                            const std::string& process) const {
  if (process.empty()) return false;
  const std::vector<LiveStream> others = OthersOf(key);
  return std::any_of(others.begin(), others.end(), [&](const LiveStream& other) {
    if (other.process.empty() || other.process == process) return false;
    if (model::AreOfOneProcess(other.process, process)) return HasFinished(other);
    if (other.ring != nullptr && other.ring->locked()) return false;
    if (other.peer != nullptr && other.peer->pidfd.valid()) return other.peer->exited();
    return other.ring != nullptr || other.attachment == 0;
  });
}

// A process that called exec() has released the rings of its previous program. A process that
// closed descriptors that it does not own has too, but it still runs the same program.
bool StreamRegistry::ReplacesProgram(const model::StreamKey& key, const Peer* peer,
                                     uint64_t began_us) {
  if (peer == nullptr || peer->pid <= 0) return false;
  for (const LiveStream& other : OthersOf(key)) {
    if (other.peer == nullptr || other.peer->pid != peer->pid) continue;
    if (other.ring == nullptr || other.ring->locked()) continue;
    const absl::StatusOr<SpoolReader> ring = SpoolReader::Open(other.ring->fd());
    v1::Hello former;
    if (!ring.ok() || !former.ParseFromString(ring->hello())) continue;
    if (former.identity().began_us() == began_us) continue;
    SetReplaced(other.key);
    return true;
  }
  return false;
}

void StreamRegistry::SetReplaced(const model::StreamKey& key) {
  {
    absl::MutexLock lock(&mutex_);
    auto found = streams_.find(key);
    if (found == streams_.end()) return;
    found->second.replaced = true;
  }
  on_change_();
}

void StreamRegistry::OfferRing(uint64_t incarnation, std::shared_ptr<const RingFile> ring) {
  absl::MutexLock lock(&mutex_);
  for (auto& [key, live] : streams_) {
    if (key.incarnation != incarnation) continue;
    if (live.ring == nullptr) live.ring = std::move(ring);
    return;
  }
}

std::map<int64_t, pid_t> StreamRegistry::Pids() const {
  std::map<int64_t, pid_t> pids;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, live] : streams_) {
    if (live.peer != nullptr) pids[live.id] = live.peer->pid;
  }
  return pids;
}

StreamRegistry::Attached StreamRegistry::CountAttached() const {
  Attached count;
  absl::MutexLock lock(&mutex_);
  const model::StreamKey* last = nullptr;  // keys are ordered by project, job and rank
  for (const auto& [key, live] : streams_) {
    if (live.attachment == 0) continue;
    ++count.streams;
    const bool same_job =
        last != nullptr && last->project == key.project && last->job_id == key.job_id;
    if (!same_job) ++count.jobs;
    if (!same_job || last->rank != key.rank) ++count.ranks;
    last = &key;
  }
  return count;
}

bool StreamRegistry::full() const {
  absl::MutexLock lock(&mutex_);
  return streams_.size() >= kMaxStreams;
}

}  // namespace ranklog::ingest
