#include "client/stream/endpoint.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/base/headroom.h"
#include "client/stream/socket/socket.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kMinBackOff{50};
constexpr milliseconds kMaxBackOff{5000};
// A daemon that takes longer has hung. Each new connection gets twice the time of the last one: a
// stopped daemon keeps all of them in its queue.
constexpr milliseconds kFirstAnswer{10'000}, kLongestFirstAnswer{300'000};
// If two ticks are further apart than the flush interval and this, the process was stopped, and the
// answers may wait in the socket.
constexpr seconds kPause{2};
constexpr seconds kRefusedRetry{5};
constexpr milliseconds kIdlePoll{1000};      // to notice that an idle connection broke
constexpr milliseconds kIntroduction{1000};  // a daemon that takes longer to attach is busy

}  // namespace

Endpoint::Endpoint(std::string address, milliseconds silence)
    : address_(std::move(address)),
      silence_(silence),
      first_answer_(kFirstAnswer),
      back_off_(kMinBackOff),
      // Not std::random_device: it throws if it gets no descriptor.
      random_(static_cast<unsigned>(Clock::now().time_since_epoch().count() ^ getpid())) {
  places_ = SocketPlaces(address_);
}

Endpoint::~Endpoint() {
  if (connection_ != nullptr) EndConnection();
}

void Endpoint::Add(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring) {
  streams_.push_back(std::make_unique<RingStream>(std::move(run), std::move(ring)));
  if (connection_ != nullptr) {
    AttachWaiting();
  } else {
    next_attempt_ = {};
  }
}

bool Endpoint::MustWait(const RingStream& stream) const {
  const v1::StreamId& id = stream.ring()->spool->hello().stream();
  for (const auto& earlier : streams_) {
    if (earlier.get() == &stream) break;
    const v1::StreamId& other = earlier->ring()->spool->hello().stream();
    const bool same_rank = other.project() == id.project() && other.job_id() == id.job_id() &&
                           other.rank() == id.rank() && earlier->run() != stream.run();
    if (!same_rank || earlier->finished() || refused_.count(earlier.get()) != 0) continue;
    const Ring& ring = *earlier->ring();
    if (ring.closing.load(std::memory_order_relaxed) && !ring.given_up.load()) return true;
  }
  return false;
}

void Endpoint::AttachWaiting() {
  for (const auto& stream : streams_) {
    if (stream->waits() && !MustWait(*stream)) Attach(stream.get());
  }
}

void Endpoint::Attach(RingStream* stream) {
  stream->Attach(connection_.get(), [this, stream](const v1::HelloReply& reply) {
    state_dir_ = reply.state_dir();
    first_answer_ = kFirstAnswer;
    if (!reply.send_descriptor()) return;
    const Spool& spool = *stream->ring()->spool;
    const absl::StatusOr<int> passed =
        PassDescriptor(places_[answered_], spool.header()->incarnation, spool.fd());
    if (passed.ok()) {
      close(*passed);
    } else {
      stream->run()->SetConnectionError(std::string(passed.status().message()));
    }
  });
}

void Endpoint::SetConnectionError(const std::string& error) {
  for (const auto& stream : streams_) stream->run()->SetConnectionError(error);
}

void Endpoint::BackOff(Time now) {
  const auto jitter = milliseconds(random_() % static_cast<unsigned>(back_off_.count()));
  next_attempt_ = now + back_off_ / 2 + jitter / 2;
  back_off_ = std::min(back_off_ * 2, kMaxBackOff);
}

bool Endpoint::HasRoom() {
  size_t bytes = 0;
  for (const auto& stream : streams_) {
    bytes = std::max<size_t>(bytes, stream->ring()->head() - stream->ring()->tail());
  }
  const absl::Status room = HasRoomToSend(bytes);
  lacks_memory_ = !room.ok();
  if (!lacks_memory_) return true;
  SetConnectionError(std::string(room.message()));
  settled_ = false;
  return false;
}

void Endpoint::TryConnect(Time now) {
  const absl::Status room = HasRoomToConnect();
  if (!room.ok()) {
    SetConnectionError(std::string(room.message()));
    if (now >= next_attempt_) BackOff(now);
    return;
  }
  if (address_.empty()) places_ = SocketPlaces(address_);  // new directories may exist
  const absl::StatusOr<int> fd = Connect(places_, &answered_);
  if (fd.ok()) {
    starter_.Answered();
    if (const absl::Status reserved = ReserveArenas(); !reserved.ok()) {
      close(*fd);
      SetConnectionError(std::string(reserved.message()));
      if (now >= next_attempt_) BackOff(now);
      return;
    }
    connection_ = std::make_unique<Connection>(*fd);
    AttachWaiting();
    return;
  }
  if (absl::IsNotFound(fd.status())) {
    const auto allowed = std::find_if(streams_.begin(), streams_.end(), [](const auto& stream) {
      return stream->run()->settings().start_daemon;
    });
    const Settings* const settings =
        allowed == streams_.end() ? nullptr : &(*allowed)->run()->settings();
    if (starter_.Try(places_, settings, state_dir_, now)) back_off_ = kMinBackOff;
  }
  SetConnectionError(starter_.Explain(fd.status()));
  // An urgent caller tries more often, and must not increase the delay of the others.
  if (now >= next_attempt_) BackOff(now);
}

bool Endpoint::Disconnect() {
  if (connection_ == nullptr) return true;
  if (!HasRoomToSend(0).ok()) return false;
  EndConnection();
  return true;
}

void Endpoint::EndConnection() {
  for (const auto& stream : streams_) stream->Cancel();
  connection_->Drain();
  for (const auto& stream : streams_) stream->Detach();
  connection_.reset();
  refused_.clear();
  hold_since_ = {};
  settled_ = false;
  DropDone();
  next_attempt_ = {};
}

void Endpoint::DropDone() {
  streams_.remove_if([this](const auto& stream) {
    if (!stream->done()) return false;
    stream->Cancel();
    if (!stream->quiet()) return false;
    refused_.erase(stream.get());
    return true;
  });
}

bool Endpoint::ExpectsSoon() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->expects_soon(); });
}

bool Endpoint::HasUndurable() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) {
    const Ring& ring = *stream->ring();
    return !stream->done() && !stream->finished() &&
           (ring.durable_end.load(std::memory_order_relaxed) != ring.head() ||
            ring.closing.load(std::memory_order_relaxed));
  });
}

void Endpoint::AddHeaders(std::vector<v1::SpoolHeader*>* headers) const {
  for (const auto& stream : streams_) headers->push_back(stream->ring()->spool->header());
}

bool Endpoint::pressed() const {
  return !lacks_memory_ && std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) {
    const Ring& ring = *stream->ring();
    return stream->attached() && ring.head() - ring.tail() >= ring.spool->data_bytes() / 2;
  });
}

bool Endpoint::attaches() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->attaches(); });
}

milliseconds Endpoint::flush_interval() const {
  milliseconds least = seconds(60);
  for (const auto& stream : streams_) {
    least = std::min(least, stream->run()->settings().flush_interval);
  }
  return least;
}

// Attaches new rings before rows and ends of other rings are sent. Their threads may log at the
// same steps, which the daemon would close without them. It could even close the run.
bool Endpoint::HoldsForNewRings(Time now) {
  const bool any = attaches();
  if (!any || hold_since_ == Time()) hold_since_ = any ? now : Time();
  return any && !pressed() && now - hold_since_ < kIntroduction;
}

void Endpoint::Advance(Time now, bool urgent) {
  if (HoldsForNewRings(now)) return;
  for (const auto& stream : streams_) stream->Advance(now, urgent);
}

// Drops a broken connection, or one to a daemon that hangs.
void Endpoint::CheckHealth(Time now) {
  for (const auto& stream : streams_) heard_ = std::max(heard_, stream->heard());
  for (const auto& stream : streams_) {
    if (stream->waits()) continue;
    if (stream->health() == RingStream::Health::kRefused) {
      SetAside(stream.get(), now);
      continue;
    }
    const bool hangs = !stream->attached() && !stream->received_message() && !stream->done() &&
                       now - stream->attach_time() > first_answer_;
    const bool silent =
        stream->attached() && stream->WaitsSince(now - silence_) && now - heard_ > silence_;
    if (stream->health() == RingStream::Health::kGood && !hangs && !silent) continue;
    if (hangs || silent) SetConnectionError("the daemon does not answer");
    if (hangs) first_answer_ = std::min(first_answer_ * 2, kLongestFirstAnswer);
    EndConnection();
    return BackOff(now);
  }
  const bool well = std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) {
    return stream->attached() || stream->waits();
  });
  if (well && !settled_) SetConnectionError("");
  if (well) back_off_ = kMinBackOff;
  settled_ = well;
}

// The daemon refused this stream. The other streams continue, and this one is tried again later.
void Endpoint::SetAside(RingStream* stream, Time now) {
  const auto [entry, is_new] = refused_.try_emplace(stream, now + kRefusedRetry);
  if (is_new) {
    stream->run()->SetConnectionError(stream->error());
    stream->Cancel();
  }
  if (now < entry->second || !stream->quiet()) return;
  refused_.erase(entry);
  stream->Detach();
  Attach(stream);
}

void Endpoint::Tick(Time deadline, bool urgent, const std::function<bool()>& hurry) {
  Time now = Clock::now();
  if (connection_ == nullptr && (urgent || now >= next_attempt_)) TryConnect(now);
  if (now - last_tick_ > flush_interval() + kPause) heard_ = now;
  last_tick_ = now;
  if (connection_ == nullptr || !HasRoom()) return;
  // An idle connection is polled only once per kIdlePoll.
  if (!urgent && !HasUndurable() && !ExpectsSoon() && now - last_poll_ < kIdlePoll) return;
  last_poll_ = now;
  while (connection_ != nullptr && connection_->Poll(now)) {
  }
  Advance(now, urgent);
  while (!hurry()) {
    now = Clock::now();
    const bool wait = ExpectsSoon() || (urgent && HasUndurable()) || pressed();
    const bool done = connection_->Poll(wait ? std::min(deadline, now + milliseconds(10)) : now);
    CheckHealth(Clock::now());
    if (connection_ == nullptr) return;
    DropDone();
    AttachWaiting();
    Advance(Clock::now(), urgent);
    if (!done && (!wait || Clock::now() >= deadline)) break;
    if (Clock::now() >= deadline) break;
  }
  if (connection_ != nullptr) CheckHealth(Clock::now());
}

}  // namespace ranklog::internal
