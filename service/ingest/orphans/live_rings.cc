#include "service/ingest/orphans/live_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/clock.h"
#include "service/base/fault_point.h"
#include "service/base/status_macros.h"
#include "service/ingest/convert.h"
#include "service/ingest/orphans/drain.h"
#include "service/ingest/orphans/ring_attach.h"
#include "service/ingest/rank_ring.h"

namespace ranklog::ingest {
namespace {

constexpr size_t kLivePartBytes = 4 << 20;  // per ring and commit; limits the memory

// Writes how far a ring is stored into its header: see v1::StoredMark.
class MarkWriter {
 public:
  // The ring's descriptor may be for reading only.
  explicit MarkWriter(const RingFile& file)
      : fd_(open(absl::StrCat("/proc/self/fd/", file.fd()).c_str(), O_WRONLY | O_CLOEXEC)) {}

  bool valid() const { return fd_.valid(); }

  bool Write(uint64_t end, uint64_t rows, uint64_t items) {
    const uint64_t mark[] = {end, rows, items};
    static_assert(sizeof mark == sizeof(v1::StoredMark));
    current_ ^= 1;
    return WriteAt(offsetof(v1::SpoolHeader, stored_marks) + current_ * sizeof mark, mark,
                   sizeof mark) &&
           WriteAt(offsetof(v1::SpoolHeader, stored), &current_, sizeof current_);
  }

 private:
  bool WriteAt(size_t offset, const void* bytes, size_t size) {
    return pwrite(fd_.get(), bytes, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }

  UniqueFd fd_;
  uint32_t current_ = 0;
};

}  // namespace

struct LiveRings::LiveRing {
  LiveRing(std::shared_ptr<const RingFile> opened, std::shared_ptr<const Peer> of, UniqueFd socket,
           SpoolReader first)
      : file(std::move(opened)),
        peer(std::move(of)),
        connection(std::move(socket)),
        reader(std::move(first)),
        marks(*file) {}

  // Whether the process asks to read at once.
  bool Asks() {
    bool asks = false;
    char bytes[64];
    ssize_t size = 0;
    while (connection.valid() &&
           (size = recv(connection.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
      asks = true;
    }
    if (connection.valid() && (size == 0 || (errno != EAGAIN && errno != EINTR))) {
      UniqueFd closed(std::move(connection));
    }
    return asks;
  }

  const std::shared_ptr<const RingFile> file;
  const std::shared_ptr<const Peer> peer;  // shared with the registry; may be null
  UniqueFd connection;
  SpoolReader reader;
  MarkWriter marks;
  model::Session session;
  absl::Time offered;
  uint64_t attachment = 0;  // 0: not attached yet
  int64_t stream = 0;
  int64_t run = 0;
  uint64_t first_seq = 0;
  model::Losses losses;      // as stored
  int64_t least_step = 0;    // as stored
  uint64_t stored_end = 0;   // position up to which it is stored
  bool must_rewind = false;  // a part was not stored; read again from the tail
  bool broken = false;       // it cannot be read; RankWatch decides when the process has ended
  std::vector<std::string> files;  // of large items, to be removed once these are in the store
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
    auto named = RingFile::OpenClaimed(ToClaim(hello.ring()), *peer);
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
  if (wake_.valid()) eventfd_write(wake_.get(), 1);
  return true;
}

std::vector<Orphans::OrphanRing> LiveRings::TakeLeft() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(left_, {});
}

absl::Status LiveRings::Start() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  if (!epoll_.valid() || !wake_.valid() ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
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
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void LiveRings::Run() {
  const Pulse::Loop loop(&pulse_);
  while (true) {
    Read(SteadyNow());
    const int wait = rings_.empty() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(kInterval));
    {
      const Pulse::Rest rest;
      epoll_event events[16];
      epoll_wait(epoll_.get(), events, 16, wait);
    }
    eventfd_t ignored;
    eventfd_read(wake_.get(), &ignored);
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
  }
}

void LiveRings::TakeOffers(absl::Time now) {
  std::vector<Pointer> offered;
  {
    absl::MutexLock lock(&mutex_);
    offered.swap(offered_);
  }
  for (Pointer& ring : offered) {
    if (ring->connection.valid() && epoll_.valid()) {
      epoll_event event{};
      event.events = EPOLLIN;
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, ring->connection.get(), &event);
    }
    ring->offered = now;
    const auto [known, is_new] = rings_.try_emplace(ring->reader.incarnation(), ring);
    if (!is_new && ring->connection.valid())
      known->second->connection = std::move(ring->connection);
  }
}

void LiveRings::Read(absl::Time now) {
  TakeOffers(now);
  std::erase_if(rings_, [&](const auto& entry) { return !Advance(entry.second, now); });
}

bool LiveRings::Advance(const Pointer& ring, absl::Time now) {
  const bool asks = ring->Asks();
  {
    absl::MutexLock lock(&mutex_);
    if (ring->in_store) return true;
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
    if (!Attach(ring.get(), now)) return true;
  }
  if (!lives) {
    context_.registry->Detach(ring->session.stream, ring->attachment);
    return false;
  }
  if (ring->broken || context_.store->full()) return true;
  if (std::exchange(ring->must_rewind, false)) {
    absl::StatusOr<SpoolReader> again = SpoolReader::Open(ring->file->fd());
    if (again.ok()) ring->reader = *std::move(again);
    ring->broken = !again.ok();
  }
  if (!ring->broken) Submit(ring, asks);
  return true;
}

// A stream that the store knows, from an earlier daemon or because it was found in a directory, needs
// no attach.
bool LiveRings::Attach(LiveRing* ring, absl::Time now) {
  const model::Session& session = ring->session;
  absl::optional<LiveStream> live = context_.registry->Find(session.stream);
  if (!live) {
    if (context_.registry->full()) return false;
    const bool has_parent = context_.registry->HasProcess(session.launch.process);
    if (!has_parent && now - ring->offered < kParentPatience) return false;
    if (context_.registry->MustWaitForPredecessor(session.stream, session.launch.process)) {
      return false;
    }
    RememberDirOf(ring->file.get(), context_.spool_dirs).IgnoreError();
    const absl::StatusOr<model::Stream> stream =
        AttachRing(context_, session, ring->reader, ring->file);
    if (!stream.ok()) {
      if (!absl::IsUnavailable(stream.status())) {
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
  ring->first_seq = ring->reader.FirstSeq();
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
  ring->files = part->files;
  const size_t bytes = reader.position() - ring->stored_end;
  {
    absl::MutexLock lock(&mutex_);
    ring->in_store = true;
  }
  context_.store->Submit(
      {.apply =
           [part = *std::move(part), stream = ring->stream, first = ring->first_seq,
            losses = ring->losses, loses,
            passed = progresses ? ring->least_step - 1 : -1](storage::Store& store) {
             // As in DrainRing(): an older copy of the store lacks rows that the child has freed.
             RETURN_IF_ERROR(store.SkipTo(stream, first - 1));
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
  if (more && wake_.valid()) eventfd_write(wake_.get(), 1);
}

}  // namespace ranklog::ingest
