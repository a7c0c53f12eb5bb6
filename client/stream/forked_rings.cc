#include "client/stream/forked_rings.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "client/stream/socket/open_sockets.h"
#include "client/stream/socket/socket.h"

namespace ranklog::internal {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestPause{50};
constexpr milliseconds kLongestPause{5000};
// How often an urgent wait looks whether the daemon has stored more. It stores within some
// milliseconds.
constexpr milliseconds kStorePause{2};

}  // namespace

ForkedRings::~ForkedRings() {
  for (Entry& entry : rings_) Disconnect(&entry);
}

absl::StatusOr<int> ForkedRings::Pass(const StreamedRun& run, const Ring& ring) {
  v1::Hello secrets;
  AddCredentials(run, &secrets);
  absl::Status absent, failed;  // the first of each kind
  for (const SocketLocation& place : SocketPlaces(run.settings().address)) {
    absl::StatusOr<int> socket = PassDescriptor(place, ring.spool->header()->incarnation,
                                                ring.spool->fd(), secrets.SerializeAsString());
    if (socket.ok()) {
      AddSocket(*socket);
      return socket;
    }
    (absl::IsNotFound(socket.status()) ? absent : failed).Update(socket.status());
  }
  return failed.ok() ? absent : failed;
}

void ForkedRings::Add(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring, int socket) {
  Entry& entry = rings_.emplace_back(std::move(run), std::move(ring));
  if (socket >= 0) Connect(&entry, socket, Time());
}

// A child does not start a daemon for its parent's run: it does not know the state directory of the
// parent's daemon.
void ForkedRings::Connect(Entry* entry, const absl::StatusOr<int>& passed, Time now) {
  const StreamedRun& run = *entry->run;
  if (passed.ok()) {
    starter_.Answered();
    entry->socket = *passed;
    entry->back_off = kShortestPause;
    entry->ring->attached.store(true, std::memory_order_relaxed);
    return entry->run->SetConnectionError("");
  }
  if (absl::IsNotFound(passed.status()) && !run.IsInherited()) {
    const Settings* const settings = run.settings().start_daemon ? &run.settings() : nullptr;
    const bool starts = starter_.Try(SocketPlaces(run.settings().address), settings, "", now);
    if (starts) entry->back_off = kShortestPause;
  }
  entry->run->SetConnectionError(starter_.Explain(passed.status()));
  entry->next_attempt = now + entry->back_off;
  entry->back_off = std::min(2 * entry->back_off, kLongestPause);
}

void ForkedRings::CheckConnection(Entry* entry) {
  char byte;
  const ssize_t size = IsSocket(entry->socket) ? recv(entry->socket, &byte, 1, MSG_DONTWAIT) : 0;
  if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) Disconnect(entry);
}

void ForkedRings::Disconnect(Entry* entry) {
  if (entry->socket < 0) return;
  CloseSocket(std::exchange(entry->socket, -1));
  entry->ring->attached.store(false, std::memory_order_relaxed);
}

// A full socket means that earlier bytes ask for the same.
void ForkedRings::AskToRead(Entry* entry) {
  const uint64_t head = entry->ring->head();
  if (entry->socket < 0 || entry->asked_end == head) return;
  if (send(entry->socket, "r", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) entry->asked_end = head;
}

ForkedRings::Time ForkedRings::Tick(Time now, bool urgent) {
  Time next = Time::max();
  for (Entry& entry : rings_) {
    if (entry.socket >= 0) CheckConnection(&entry);
    if (entry.socket < 0 && (urgent || now >= entry.next_attempt)) {
      Connect(&entry, Pass(*entry.run, *entry.ring), now);
    }
    entry.live.Advance(now, entry.run->open_step());
    if (urgent && !entry.live.AllStored()) AskToRead(&entry);
    if (const std::string* const damage = entry.live.Damage()) {
      entry.ring->given_up.store(true, std::memory_order_release);
      entry.run->SetLastError(*damage);
    }
    // The daemon ends the stream of a finished ring whose lock is released.
    if (entry.live.done()) entry.ring->spool->Unlock();
    next = std::min(next, now + (urgent ? kStorePause : entry.run->settings().flush_interval));
  }
  rings_.remove_if([](Entry& entry) {
    const bool over = entry.live.done() || entry.ring->given_up.load(std::memory_order_relaxed);
    if (over) Disconnect(&entry);
    return over;
  });
  return next;
}

void ForkedRings::AddHeaders(std::vector<v1::SpoolHeader*>* headers) const {
  for (const Entry& entry : rings_) headers->push_back(entry.ring->spool->header());
}

}  // namespace ranklog::internal
