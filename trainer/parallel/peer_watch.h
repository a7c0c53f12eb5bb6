#ifndef TRAINER_PARALLEL_PEER_WATCH_H_
#define TRAINER_PARALLEL_PEER_WATCH_H_

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace c10d {
class Store;
}

namespace ranklog::trainer {

// Finds the rank that is to blame when a collective fails. LibTorch reports "connection closed" or
// "timed out", and names an address at most.
//
// Each rank writes a heartbeat to the store: its age and the number of collectives that it has
// begun. A separate thread with a separate connection writes it. So a rank that computes or waits
// for others counts as alive. If its process or node is dead, stopped or unreachable, heartbeats
// end.
class PeerWatch {
 public:
  // Heartbeats are one second apart. A rank without a heartbeat for this long counts as lost.
  static constexpr absl::Duration kSilence = absl::Seconds(3);

  // `store` is this object's own connection; `server` names the process that serves it, for
  // messages. Create it as soon as all ranks have connected: ages are compared between ranks.
  PeerWatch(c10::intrusive_ptr<c10d::Store> store, const std::string& server, int rank,
            int world_size);
  ~PeerWatch();
  PeerWatch(PeerWatch&&) noexcept;
  PeerWatch& operator=(PeerWatch&&) noexcept;

  // The store's key of a rank that reported its failure.
  static std::string FailedKey(int rank);

  // Call it as each collective begins, from any thread. Costs nothing.
  void CountCollective();

  // Returns why `rank` counts as lost: it failed, or had no heartbeat for `silence`. Empty while it
  // is alive. Throws what the store throws.
  std::string Lost(int rank, absl::Duration silence = kSilence) const;

  // Publishes `error` as the failure of this rank, for the others' Blame(). Does not throw.
  void ReportFailure(const std::string& error) const;

  // Call it when a collective threw `error`. Returns the ranks that are to blame, and why, as a
  // clause. If no other rank is to blame, calls ReportFailure(error) and returns an empty text.
  // Takes up to kSilence and some seconds, and does not throw.
  std::string Blame(const std::string& error) const;

 private:
  struct State;
  class Heartbeat;
  std::string AskStore(const std::function<std::string(const State&)>& ask) const;
  std::shared_ptr<State> state_;  // shared with the heartbeat, and with a Blame() that hangs
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_PEER_WATCH_H_
