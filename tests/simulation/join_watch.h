// Watches how long the daemon of rank 0's node waits for the daemons of other nodes.

#ifndef TESTS_SIMULATION_JOIN_WATCH_H_
#define TESTS_SIMULATION_JOIN_WATCH_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/storage/store_reader.h"
#include "tests/simulation/peer_network.h"
#include "tests/simulation/world.h"

namespace ranklog::simulation {

// Call Look() once per second. It judges:
//
// - A stream of another node is ended as lost only if no own rank was live, and its node's daemon
//   was not heard for 30 s.
// - Once the own ranks have ended, a stream whose node is not heard ends within 30 s; and the run, if
//   no node with a live stream is heard. This is judged after the faults.
class JoinWatch {
 public:
  JoinWatch(World* world, const PeerNetwork* network) : world_(*world), network_(*network) {}

  // `life`: of the daemon that has this store; 0: none.
  void Look(storage::StoreReader& home, uint64_t life);
  const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  struct Watched {
    absl::Time quiet_since = absl::InfiniteFuture();
    std::map<int64_t, absl::Time> silent_since;  // by stream of another node
    std::set<int64_t> lost;
    bool own_live = false;
    bool reported = false;
  };
  void JudgeSilence(const model::Run& run, const model::Stream& stream, bool* heard,
                    Watched* watched);
  void LookAt(storage::StoreReader& home, const model::Run& run, Watched* watched);

  World& world_;
  const PeerNetwork& network_;
  uint64_t life_ = 0;
  std::map<int64_t, Watched> runs_;
  std::vector<std::string> wrong_;
};

// Whether the home ended this stream because its node was not heard.
bool IsLost(const model::Stream& stream);

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_JOIN_WATCH_H_
