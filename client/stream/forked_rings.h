// The rings of a forked child. It passes their descriptors to the daemon, which reads them.

#ifndef CLIENT_STREAM_FORKED_RINGS_H_
#define CLIENT_STREAM_FORKED_RINGS_H_

#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/stream/daemon_starter.h"
#include "client/stream/live_ring.h"
#include "client/stream/streamed_run.h"

namespace ranklog::internal {

// Use it on the sender's thread.
class ForkedRings {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ForkedRings() = default;
  ~ForkedRings();
  ForkedRings(const ForkedRings&) = delete;
  ForkedRings& operator=(const ForkedRings&) = delete;

  // Passes the ring's descriptor and the run's secrets to the daemon, and returns the connection. It
  // costs some system calls and never waits. On any thread.
  static absl::StatusOr<int> Pass(const StreamedRun& run, const Ring& ring);

  // `socket`: from Pass(); -1: try again later.
  void Add(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring, int socket);
  bool empty() const { return rings_.empty(); }

  // Does everything that can be done now. `urgent`: somebody waits, so the daemon is asked to read
  // at once. Returns the time of the next useful Tick(); Time::max() without rings.
  Time Tick(Time now, bool urgent);

  void AddHeaders(std::vector<v1::SpoolHeader*>* headers) const;

 private:
  // One ring and its connection to the daemon, on which the descriptor was passed. Its end shows that
  // another daemon must get the descriptor. A byte on it asks the daemon to read now.
  struct Entry {
    Entry(std::shared_ptr<StreamedRun> of, std::shared_ptr<Ring> made)
        : run(std::move(of)), ring(std::move(made)), live(ring.get()) {}

    const std::shared_ptr<StreamedRun> run;
    const std::shared_ptr<Ring> ring;
    LiveRing live;
    int socket = -1;  // from Pass()
    Time next_attempt{};
    std::chrono::milliseconds back_off{50};
    uint64_t asked_end = 0;  // the daemon was asked to read up to here
  };

  void Connect(Entry* entry, const absl::StatusOr<int>& passed, Time now);
  static void CheckConnection(Entry* entry);
  static void Disconnect(Entry* entry);
  static void AskToRead(Entry* entry);

  std::list<Entry> rings_;
  DaemonStarter starter_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_FORKED_RINGS_H_
