// One life of the daemon: the real stages, stepped by the simulation, over a failing disk and
// network.

#ifndef TESTS_SIMULATION_DAEMON_H_
#define TESTS_SIMULATION_DAEMON_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "service/deliver/credentials.h"
#include "service/deliver/http/circuit_breaker.h"
#include "service/ingest/orphans/live_rings.h"
#include "service/ingest/orphans/orphans.h"
#include "service/ingest/server/finish_call.h"
#include "service/peer/push_loop.h"
#include "service/peer/push_receiver.h"
#include "service/pipeline/aggregate_loop.h"
#include "service/pipeline/delivery/deliver_loop.h"
#include "service/pipeline/retention_loop.h"
#include "tests/simulation/link.h"
#include "tests/simulation/tracker.h"
#include "tests/simulation/world.h"
#include "tests/support/faulty_vfs.h"

namespace ranklog::simulation {

class DaemonLife {
 public:
  struct Surroundings {
    uint32_t node = 0;
    std::string state_dir;
    testing::FaultyVfs* vfs = nullptr;
    Tracker* tracker = nullptr;
    const WallClock* wall_clock = nullptr;
    std::function<bool(uint64_t incarnation)> lives;       // whether the ring's rank is alive
    std::function<std::vector<std::string>()> ring_files;  // rings of dead ranks
    std::function<void(uint64_t incarnation, const v1::ServerMessage&)> on_sent;
    bool forks = false;    // its ranks have forked children
    bool uploads = false;  // its ranks stage files
    // called before a run may be removed; null: no run is removed
    std::function<void()> before_removal;
    // Sends a request to the daemon of rank 0's node; null: the nodes are not joined.
    std::function<void(const v1::PushRequest&, std::function<void(absl::Status, v1::PushReply)>)>
        push;
    std::function<void(uint64_t sender)> began;  // with this number; only if `push` is set
  };

  // Opens the store as a starting daemon does.
  static absl::StatusOr<std::unique_ptr<DaemonLife>> Start(World* world,
                                                           const Surroundings& surroundings);
  ~DaemonLife();  // dies: nothing more of it reaches the disk or a peer

  void Connect(const std::shared_ptr<Link>& link, uint64_t incarnation);
  void Finish(const v1::FinishRequest& request, ingest::Answer answer);
  void Pass(const std::string& path);  // the ring of a forked child
  // Takes a request of another node's daemon. After its death, the answer is an error.
  void Push(const v1::PushRequest& request,
            std::function<void(absl::Status, v1::PushReply)> answer);

  // Runs one step of one of its threads. Returns the time until the next step.
  absl::Duration Step();
  // Returns false if it died in the middle of a step.
  bool works() const { return !*dead_ && !surroundings_.vfs->frozen(); }

 private:
  DaemonLife(World* world, Surroundings surroundings);
  absl::Status Open();
  absl::Status OpenPeers();
  std::vector<pipeline::DeliverLoop::Worker> Workers();
  struct Waiter {
    absl::Time since;
    absl::AnyInvocable<void()> then;
  };
  void Watch();
  void FindRings();

  World& world_;
  const Surroundings surroundings_;
  const std::shared_ptr<bool> dead_ = std::make_shared<bool>(false);
  const absl::Time started_;
  deliver::CredentialStore credentials_;
  deliver::CircuitBreakers breakers_;
  ingest::IngestCounters counters_;
  ingest::StreamRegistry registry_{[] {}};
  std::shared_ptr<const ingest::Peer> peer_;
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<pipeline::DeliverLoop> deliver_;
  std::unique_ptr<pipeline::AggregateLoop> aggregate_;
  std::unique_ptr<pipeline::RetentionLoop> retention_;  // null: neither runs nor files are removed
  std::unique_ptr<ingest::Attacher> attacher_;
  std::unique_ptr<peer::PushReceiver> receiver_;  // null: the nodes are not joined
  std::unique_ptr<peer::PushLoop> push_;          // the same
  std::unique_ptr<storage::StoreReader> reader_;
  std::unique_ptr<ingest::ContentDir> content_;
  ingest::IngestContext context_;
  std::unique_ptr<ingest::Orphans> orphans_;
  std::unique_ptr<ingest::LiveRings> live_rings_;
  std::vector<std::shared_ptr<Link>> links_;
  std::vector<Waiter> waiting_;  // until the rows of the dead are taken
  absl::Time next_watch_ = absl::InfinitePast();
  absl::Time next_checkpoint_;
  absl::Time next_commit_ = absl::InfinitePast();
  absl::Time next_removal_ = absl::InfinitePast();
  absl::Time next_read_ = absl::InfinitePast();
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_DAEMON_H_
