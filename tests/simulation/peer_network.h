// The network between the daemons of a job's nodes. It delays requests and answers, loses either,
// delivers a request twice or late, and is cut now and then.

#ifndef TESTS_SIMULATION_PEER_NETWORK_H_
#define TESTS_SIMULATION_PEER_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ranklog/v1/ranklog.pb.h"
#include "tests/simulation/world.h"

namespace ranklog::simulation {

// All requests go to the daemon of node 0, where rank 0 is. For one thread.
class PeerNetwork {
 public:
  using Answer = std::function<void(absl::Status, v1::PushReply)>;
  // Gives a request to the home's daemon. Returns false if none listens.
  using Home = std::function<bool(const v1::PushRequest&, Answer)>;

  PeerNetwork(World* world, uint32_t nodes) : world_(*world), cut_until_(nodes) {}

  void SetHome(Home home) { home_ = std::move(home); }
  // Calls `done` once, at the latest after 20 s, as Homes does.
  void Send(uint32_t node, const v1::PushRequest& request, Answer done);
  // Cuts a node off now and then while there are faults. The last cut may outlast them.
  void CutNowAndThen(uint32_t node);
  // When the last request of this node's present daemon arrived. `sender`: the daemon's number.
  void Began(uint32_t node, uint64_t sender) { senders_[node] = sender; }
  // Requests that arrive late do not count, since that daemon may be dead.
  bool HeardBetween(uint32_t node, absl::Time from, absl::Time to) const;
  absl::Time LastHeard(uint32_t node) const;
  uint64_t requests() const { return requests_; }

 private:
  struct Call;
  void Arrive(const std::shared_ptr<Call>& call);
  void Return(const std::shared_ptr<Call>& call, absl::Status status, v1::PushReply reply);
  bool IsCut(uint32_t node) const { return world_.now() < cut_until_[node]; }

  World& world_;
  Home home_;
  std::vector<absl::Time> cut_until_;                  // by node
  std::map<uint32_t, uint64_t> senders_;               // by node
  std::map<uint32_t, std::vector<absl::Time>> heard_;  // by node; of its present daemon
  std::map<uint32_t, absl::Time> last_heard_;          // by node; of any of its daemons
  uint64_t requests_ = 0;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_PEER_NETWORK_H_
