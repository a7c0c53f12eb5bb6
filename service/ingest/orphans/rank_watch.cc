#include "service/ingest/orphans/rank_watch.h"

#include <errno.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <iterator>

#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/fault_point.h"
#include "service/base/status_macros.h"
#include "service/ingest/orphans/ring_scan.h"

namespace ranklog::ingest {
namespace {

// A file that has no Hello after this time will never have one.
constexpr absl::Duration kAbandoned = absl::Minutes(1);
// Rings per scan, each with a descriptor; the next scan takes more.
constexpr size_t kMaxLeft = 256;

}  // namespace

RankWatch::RankWatch(const IngestContext* context, std::unique_ptr<storage::StoreReader> reader,
                     const WakeEvent* wake, Options options)
    : context_(*context),
      reader_(std::move(reader)),
      orphans_(context, reader_.get()),
      wake_(wake),
      options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

RankWatch::~RankWatch() { Stop(); }

absl::Status RankWatch::Start() {
  if (!epoll_.valid() || stop_.fd() < 0) {
    return absl::ErrnoToStatus(errno, "cannot create the descriptors of the rank watch");
  }
  for (int fd : {stop_.fd(), wake_->fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  ASSIGN_OR_RETURN(std::vector<model::Stream> streams, reader_->LiveStreams());
  for (const model::Stream& stream : streams) {
    if (stream.state == model::StreamState::kLive && stream.peer.empty())
      context_.registry->AddKnown(stream);
  }
  started_ = SteadyNow();
  WhenCaughtUp([this] {
    absl::MutexLock lock(&mutex_);
    caught_up_ = true;
    changed_.Wake();
  });
  thread_ = std::thread([this] { Run(); });
  absl::MutexLock lock(&mutex_);
  const auto caught_up = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return caught_up_; };
  changed_.Await(&mutex_, options_.head_start, caught_up);
  return absl::OkStatus();
}

void RankWatch::WhenCaughtUp(absl::AnyInvocable<void()> then) {
  {
    absl::MutexLock lock(&mutex_);
    waiting_.push_back({SteadyNow(), /*scanned=*/false, std::move(then)});
  }
  wake_->Notify();
}

void RankWatch::Stop() {
  if (!thread_.joinable()) return;
  stop_.Notify();
  thread_.join();
}

void RankWatch::Run() {
  const Pulse::Loop loop(&pulse_);
  absl::Time next_scan = absl::InfinitePast();
  bool more = false;  // of the last scan
  while (true) {
    const absl::Time now = SteadyNow();
    const bool any_passed = TakePassed();  // a scan finds the rings of their parents
    Rings rings;
    if (now >= next_scan || any_passed || AnyAwaitsScan()) {
      RecordScan();
      rings = Scan();  // before the sweep: Scan() finds rings of live streams
      next_scan = SteadyNow() + options_.scan_interval;
      more = rings.more;
    }
    for (const Orphans::OrphanRing& ring : passed_) AddLeft(&rings, ring);
    WatchPeers();
    Sweep(now);  // before Adopt(): these streams are older than the rings found
    bool forked_wait = AttachForked(rings, now);
    const auto attach_waiting = [&] {
      if (forked_wait) forked_wait = AttachForked(rings, now);
    };
    const bool taken = orphans_.Adopt(
        rings.left,
        [this](const Orphans::OrphanRing& ring, const absl::Status& why) {
          IgnoreRing(*ring.file, why);
        },
        [&] {
          attach_waiting();
          CallWaiting(/*caught_up=*/false);
        });
    attach_waiting();
    if (taken) passed_.clear();
    if (taken && rings.more) next_scan = now;
    CallWaiting(/*caught_up=*/!more);
    absl::Duration wait = std::max(next_scan - SteadyNow(), absl::ZeroDuration());
    if (!released_.empty()) wait = std::min(wait, options_.release_grace);
    epoll_event events[64];
    int count = 0;
    {
      const Pulse::Rest rest;
      count = epoll_wait(epoll_.get(), events, 64,
                         static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
    }
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == stop_.fd()) return orphans_.CountLossesAfterFinish();
      if (events[i].data.fd == wake_->fd()) wake_->Clear();
    }
  }
}

bool RankWatch::TakePassed() {
  if (options_.live_rings == nullptr) return false;
  std::vector<Orphans::OrphanRing> passed = options_.live_rings->TakeLeft();
  std::move(passed.begin(), passed.end(), std::back_inserter(passed_));
  return !passed.empty();
}

bool RankWatch::AnyAwaitsScan() {
  absl::MutexLock lock(&mutex_);
  return !waiting_.empty() && !waiting_.back().scanned;
}

void RankWatch::RecordScan() {
  absl::MutexLock lock(&mutex_);
  for (Waiter& each : waiting_) each.scanned = true;
}

void RankWatch::CallWaiting(bool caught_up) {
  std::vector<Waiter> called;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time long_ago = SteadyNow() - options_.head_start;
    const auto rest = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiter& each) {
      return !(caught_up && each.scanned) && each.since > long_ago;
    });
    std::move(waiting_.begin(), rest, std::back_inserter(called));
    waiting_.erase(waiting_.begin(), rest);
  }
  for (Waiter& each : called) each.then();
}

void RankWatch::WatchPeers() {
  // One-shot, because a pidfd stays readable and one event is enough. It leaves the epoll set when
  // it is closed.
  for (const auto& peer : context_.registry->PeersToWatch()) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.fd = peer->pidfd.get();
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peer->pidfd.get(), &event);
  }
}

void RankWatch::Sweep(absl::Time now) {
  std::map<model::StreamKey, absl::Time> release_grace;
  for (const LiveStream& live : context_.registry->Detached()) {
    if (IsDead(live, now)) {
      orphans_.EndDead(live);
    } else if (HasReleasedRing(live)) {
      const auto before = released_.find(live.key);
      const absl::Time since = before == released_.end() ? now : before->second;
      if (now - since < options_.release_grace) {
        release_grace[live.key] = since;
      } else if (orphans_.EndDead(live, /*process_lives=*/true)) {
        kept_.insert_or_assign({live.ring->device(), live.ring->inode()}, live.peer);
      }
    }
  }
  released_ = std::move(release_grace);
  orphans_.CountLossesAfterFinish();
}

bool RankWatch::HasReleasedRing(const LiveStream& live) {
  return live.ring != nullptr && !live.ring->locked() && live.peer != nullptr &&
         live.peer->pidfd.valid();
}

bool RankWatch::IsDead(const LiveStream& live, absl::Time now) const {
  if (live.ring != nullptr && live.ring->locked()) return false;
  if (live.peer != nullptr && live.peer->pidfd.valid()) {
    if (live.peer->exited()) return true;
    // The process runs, but released a ring that is finished, or that belonged to its previous
    // program.
    if (live.ring == nullptr) return false;
    if (live.replaced) return true;
    absl::StatusOr<SpoolReader> ring = SpoolReader::Open(live.ring->fd());
    // If its Run was destroyed, the process may be about to end: its descriptors are closed before
    // it ends.
    return ring.ok() && ring->finished() && !ring->destroyed();
  }
  // Only the lock of its ring could show that it lives, or the rank was not seen since the daemon's
  // start.
  return live.ring != nullptr || now - started_ > options_.attach_grace;
}

RankWatch::Rings RankWatch::Scan() {
  FaultPoint("scan");
  std::erase_if(kept_, [](const auto& ring) { return ring.second->exited(); });
  Rings rings;
  std::vector<std::string> dirs = options_.spool_dirs;
  if (context_.spool_dirs != nullptr) {
    for (std::string& dir : context_.spool_dirs->All()) dirs.push_back(std::move(dir));
  }
  for (const std::string& dir : dirs) {
    for (const std::string& path : RingsIn(dir)) Examine(path, &rings);
  }
  return rings;
}

void RankWatch::Examine(const std::string& path, Rings* rings) {
  absl::StatusOr<std::shared_ptr<const RingFile>> file = RingFile::OpenLeft(path);
  if (!file.ok()) return;
  const FileId id((*file)->device(), (*file)->inode());
  if (ignored_.count(id) != 0 || kept_.count(id) != 0) return;
  absl::StatusOr<SpoolReader> ring = SpoolReader::Open((*file)->fd());
  if (absl::IsUnavailable(ring.status())) {
    const absl::Time modified = absl::FromUnixMicros((*file)->modified_us());
    // Compares wall time with wall time, because the file system has no steady clock.
    if (!(*file)->locked() && context_.wall_clock() - modified > kAbandoned) (*file)->Unlink();
    return;
  }
  if (!ring.ok()) return IgnoreRing(**file, ring.status());
  const absl::optional<LiveStream> live = context_.registry->FindIncarnation(ring->incarnation());
  if (live && live->ring == nullptr) context_.registry->OfferRing(ring->incarnation(), *file);
  const bool is_ours = live || IsForDaemonAt(options_.socket_path, *ring);
  const bool locked = (*file)->locked();
  if (is_ours && locked && (!live || live->attachment == 0) && options_.live_rings != nullptr) {
    options_.live_rings->Offer(*file, /*peer=*/nullptr, UniqueFd());
  }
  if (live || !is_ours) return;  // Sweep() handles it
  if (!locked) {                 // its rank may have written until then
    if (const absl::Status read = ring->Refresh(); !read.ok()) return IgnoreRing(**file, read);
  }
  const bool full = rings->left.size() >= kMaxLeft;
  if (!locked && !full) return AddLeft(rings, {*std::move(file), *std::move(ring)});
  // Until the next scan takes a dead rank's ring, steps of its run wait for it too.
  rings->living.push_back(Orphans::Describe({*std::move(file), *std::move(ring)}));
  rings->more |= !locked;
}

// A ring may come twice: its directory has two names, or its process passed it as well.
void RankWatch::AddLeft(Rings* rings, Orphans::OrphanRing ring) {
  const auto same = [&ring](const Orphans::OrphanRing& other) {
    return other.ring.incarnation() == ring.ring.incarnation();
  };
  if (std::any_of(rings->left.begin(), rings->left.end(), same)) return;
  rings->left.push_back(std::move(ring));
}

bool RankWatch::AttachForked(const Rings& rings, absl::Time now) {
  const Orphans::Forked forked = orphans_.AttachForked(rings.left, rings.living);
  for (const model::StreamKey& key : forked.attached) expected_[key] = now;
  std::erase_if(expected_, [&](const auto& expected) {
    const auto& [key, since] = expected;
    const absl::optional<LiveStream> live = context_.registry->Find(key);
    if (!live || live->attachment != 0) return true;
    if (now - since < options_.attach_grace) return false;
    const absl::Status passed = context_.store->SubmitAndWait([&](storage::Store& store) {
      return store.SetProgress(live->id, model::Stream::kAllSteps);
    });
    if (passed.ok()) context_.run_changed(live->run);
    return passed.ok();
  });
  return forked.waiting;
}

void RankWatch::IgnoreRing(const RingFile& file, const absl::Status& why) {
  ++context_.counters->unreadable_rings;
  spdlog::warn("ignored the spool {}: {}", file.path(), why.ToString());
  ignored_.insert({file.device(), file.inode()});
}

}  // namespace ranklog::ingest
