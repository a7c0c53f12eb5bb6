#include "service/ingest/orphans/live_rings.h"

#include <errno.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "ranklog/v1/ranklog.pb.h"
#include "service/base/clock.h"
#include "service/base/fault_point.h"
#include "service/base/status_macros.h"
#include "service/ingest/orphans/child_connection.h"
#include "service/ingest/orphans/drain.h"
#include "service/ingest/orphans/mark_writer.h"
#include "service/ingest/orphans/ring_attach.h"
#include "service/ingest/rank_ring.h"

namespace ranklog::ingest {
namespace {

constexpr size_t kLivePartBytes = 4 << 20;  // per ring and commit; limits the memory

}  // namespace

struct LiveRings::LiveRing {
  LiveRing(std::shared_ptr<const RingFile> opened, std::shared_ptr<const Peer> of, UniqueFd socket,
           SpoolReader first)
      : file(std::move(opened)),
        peer(std::move(of)),
        connection(std::move(socket)),
        reader(std::move(first)),
        marks(*file) {}

  const std::shared_ptr<const RingFile> file;
  const std::shared_ptr<const Peer> peer;  // shared with the registry; may be null
  ChildConnection connection;
  SpoolReader reader;
  MarkWriter marks;
  model::Session session;
  std::map<std::string, std::string> credentials;
  std::shared_ptr<std::atomic<bool>> caught_up;  // see Attach(); null: not asked
  bool in_part = false;                          // in_store, as of Prepare()
  bool asked = false;                            // to read at once
  uint64_t attachment = 0;                       // 0: not attached yet
  int64_t stream = 0;
  int64_t run = 0;
  model::Losses losses;      // as stored
  int64_t least_step = 0;    // as stored
  uint64_t stored_end = 0;   // position up to which it is stored
  bool must_rewind = false;  // a part was not stored; read again from the tail
  bool broken = false;       // it cannot be read; RankWatch decides when the process has ended
  // Of the part that is in the store loop: its rows, and the files of large items, to be removed once
  // these are in the store.
  uint64_t rows = 0;
  std::vector<std::string> files;
  // Guarded by LiveRings::mutex_.
  bool in_store = false;  // a part is not answered yet; nothing else of the ring is used meanwhile
  absl::Status answer;    // of the last part
};

LiveRings::~LiveRings() { Stop(); }

bool LiveRings::Offer(std::shared_ptr<const RingFile> file, std::shared_ptr<const Peer> peer,
                      UniqueFd connection) {
  const absl::StatusOr<SpoolReader> reader = SpoolReader::Open(file->fd());
  v1::Hello hello;
  if (!reader.ok() || !hello.ParseFromString(reader->hello()) || !hello.ring().read_live()) {
    return false;
  }
  absl::StatusOr<model::Session> session = SessionOf(*reader);
  if (!session.ok()) {
    spdlog::warn("cannot read the spool of a forked child: {}", session.status().ToString());
    return false;
  }
  // Only a file with a name can be removed.
  if (peer != nullptr && file->path().empty()) {
    auto named = RingFile::OpenClaimed(hello.ring(), *peer);
    const bool is_same = named.ok() && !(*named)->path().empty() &&
                         (*named)->inode() == file->inode() && (*named)->device() == file->device();
    if (is_same) return Offer(*std::move(named), std::move(peer), std::move(connection));
  }
  auto ring =
      std::make_shared<LiveRing>(std::move(file), std::move(peer), std::move(connection), *reader);
  if (!ring->marks.valid()) {
    spdlog::warn("cannot write to the spool of a forked child of rank {} of {}",
                 session->stream.rank, session->stream.job_id);
    return false;
  }
  ring->session = *std::move(session);
  {
    absl::MutexLock lock(&mutex_);
    offered_.push_back(std::move(ring));
  }
  wake_.Notify();
  return true;
}

std::vector<Orphans::OrphanRing> LiveRings::TakeLeft() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(left_, {});
}

absl::Status LiveRings::Start() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.fd();
  if (!epoll_.valid() || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.fd(), &event) != 0) {
    return absl::ErrnoToStatus(errno, "cannot create the descriptors of the live rings");
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void LiveRings::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.Notify();
  thread_.join();
}

void LiveRings::Run() {
  const Pulse::Loop loop(&pulse_);
  while (true) {
    Read();
    const int wait = rings_.empty() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(kInterval));
    {
      const Pulse::Rest rest;
      epoll_event events[16];
      epoll_wait(epoll_.get(), events, 16, wait);
    }
    wake_.Clear();
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
  }
}

void LiveRings::TakeOffers() {
  std::vector<Pointer> offered;
  {
    absl::MutexLock lock(&mutex_);
    offered.swap(offered_);
  }
  for (Pointer& ring : offered) {
    if (ring->connection.valid() && epoll_.valid()) {
      epoll_event event{};
      event.events = EPOLLIN;
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, ring->connection.fd(), &event);
    }
    ring->credentials = ring->connection.TakeCredentials();
    const auto [known, is_new] = rings_.try_emplace(ring->reader.incarnation(), ring);
    if (!is_new && ring->connection.valid())
      known->second->connection = std::move(ring->connection);
  }
}

// All rings are attached before any is read: a step of their run must not be closed by one of them
// before the others are known.
void LiveRings::Read() {
  TakeOffers();
  std::erase_if(rings_, [&](const auto& entry) { return !Prepare(entry.second); });
  for (const auto& [incarnation, ring] : rings_) {
    if (ring->attachment != 0 && !ring->broken && !ring->in_part && !context_.store->full()) {
      Submit(ring, std::exchange(ring->asked, false));
    }
  }
}

bool LiveRings::Prepare(const Pointer& ring) {
  ring->asked |= ring->connection.TakeRequest();
  {
    absl::MutexLock lock(&mutex_);
    ring->in_part = ring->in_store;
    if (ring->in_part) return true;
    const absl::Status answer = std::exchange(ring->answer, absl::OkStatus());
    ring->broken |= absl::IsInvalidArgument(answer) || absl::IsNotFound(answer);
    if (!answer.ok() && !ring->broken) ring->must_rewind = true;
  }
  const bool lives = lives_(*ring->file, ring->reader.incarnation());
  if (ring->attachment == 0) {
    if (!lives) {  // ended already, and RankWatch does not know of it
      absl::MutexLock lock(&mutex_);
      left_.push_back({ring->file, ring->reader});
      on_left_();
      return false;
    }
    if (ring->broken || !Attach(ring.get())) return true;
  }
  if (!lives) {
    context_.registry->Detach(ring->session.stream, ring->attachment);
    return false;
  }
  if (std::exchange(ring->must_rewind, false)) {
    absl::StatusOr<SpoolReader> again = SpoolReader::Open(ring->file->fd());
    ring->broken |= !again.ok();
    if (again.ok()) ring->reader = *std::move(again);
  }
  return true;
}

// If no stream of the process is attached, the rank watch first attaches all rings that it finds of
// the process, also that of its parent. A stream that the store knows needs no attach.
bool LiveRings::Attach(LiveRing* ring) {
  const model::Session& session = ring->session;
  if (!context_.registry->HasAttached(session.launch.process)) {
    if (ring->caught_up == nullptr) {
      ring->caught_up = std::make_shared<std::atomic<bool>>(false);
      context_.when_caught_up([caught_up = ring->caught_up] { *caught_up = true; });
    }
    if (!*ring->caught_up) return false;
  }
  absl::optional<LiveStream> live = context_.registry->Find(session.stream);
  if (!live) {
    if (context_.registry->full()) return false;
    if (context_.registry->MustWaitForPredecessor(session.stream, session.launch.process)) {
      return false;
    }
    RememberDirOf(ring->file.get(), context_.spool_dirs).IgnoreError();
    if (!ring->credentials.empty()) context_.credentials.remember(session, ring->credentials);
    const absl::StatusOr<model::Stream> stream =
        AttachRing(context_, session, ring->reader, ring->file);
    if (!stream.ok()) {
      // After these two errors it is tried again.
      ring->broken = !absl::IsUnavailable(stream.status()) && !absl::IsInternal(stream.status());
      if (ring->broken) {
        spdlog::warn("cannot attach a forked child of rank {} of {}: {}", session.stream.rank,
                     session.stream.job_id, stream.status().ToString());
      }
      return false;
    }
    ring->session.stream = stream->key;
    ++context_.counters->attaches;
    live = context_.registry->Find(stream->key);
    if (!live) return false;
  }
  ring->stream = live->id;
  ring->run = live->run;
  ring->attachment = context_.registry->BeginReading(ring->session.stream, ring->file, ring->peer);
  return ring->attachment != 0;
}

void LiveRings::Submit(const Pointer& ring, bool urgent) {
  SpoolReader& reader = ring->reader;
  if (const absl::Status read = reader.Refresh(); !read.ok()) {
    spdlog::warn("stopped reading the spool of a forked child of rank {} of {}: {}",
                 ring->session.stream.rank, ring->session.stream.job_id, read.ToString());
    ring->broken = true;
    return;
  }
  auto part = reader.Next(kLivePartBytes, context_.content);
  if (part.ok() && part->has_rows()) {
    if (const absl::Status valid = model::Validate(part->batch); !valid.ok()) part = valid;
  }
  if (!part.ok()) {  // RankWatch sets the ring aside once its process has ended
    ring->broken = true;
    return;
  }
  const bool progresses = reader.unread() == 0 && reader.least_step() > ring->least_step;
  const bool loses = reader.losses() != ring->losses;
  if (part->empty() && !progresses && !loses) return;
  FaultPoint("receive");
  ring->losses = reader.losses();
  if (progresses) ring->least_step = reader.least_step();
  ring->rows = part->has_rows() ? part->batch.rows() : 0;
  ring->files = part->files;
  const size_t bytes = reader.position() - ring->stored_end;
  {
    absl::MutexLock lock(&mutex_);
    ring->in_store = true;
  }
  context_.store->Submit(
      {.apply =
           [part = *std::move(part), stream = ring->stream, losses = ring->losses, loses,
            passed = progresses ? ring->least_step - 1 : -1](storage::Store& store) {
             // As in DrainRing(): an older copy of the store lacks rows that the child has freed.
             if (part.has_rows()) RETURN_IF_ERROR(store.SkipTo(stream, part.batch.first - 1));
             RETURN_IF_ERROR(StorePart(part, stream, store));
             if (loses) RETURN_IF_ERROR(store.SetLosses(stream, losses));
             return passed >= 0 ? store.SetProgress(stream, passed) : absl::OkStatus();
           },
       .done = [this, ring](const absl::Status& status) { Stored(ring, status); },
       .bytes = bytes,
       .urgent = urgent});
}

// On the store loop's thread.
void LiveRings::Stored(const Pointer& ring, const absl::Status& status) {
  if (status.ok()) {
    if (!ring->files.empty()) context_.content->Remove(ring->files);
    context_.counters->rows += ring->rows;
    const model::StreamKey& key = ring->session.stream;
    context_.registry->SetDurable(key, ring->reader.last_seq(), ring->reader.last_item());
    if (const auto live = context_.registry->Find(key)) {
      ring->stored_end = ring->reader.position();
      ring->marks.Write(ring->stored_end, live->durable_seq, live->durable_item);
    }
    context_.run_changed(ring->run);
  }
  const bool more = ring->reader.unread() > 0;
  {
    absl::MutexLock lock(&mutex_);
    ring->in_store = false;
    ring->answer = status;
  }
  if (more) wake_.Notify();
}

}  // namespace ranklog::ingest
