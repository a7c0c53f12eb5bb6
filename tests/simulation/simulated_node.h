// One node of a seed: its ranks, daemon, disk and wall clock, and their lives and deaths.

#ifndef TESTS_SIMULATION_SIMULATED_NODE_H_
#define TESTS_SIMULATION_SIMULATED_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/storage/store_reader.h"
#include "tests/simulation/daemon.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/peer_network.h"
#include "tests/simulation/rank.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/tracker.h"
#include "tests/simulation/world.h"
#include "tests/support/faulty_vfs.h"

namespace ranklog::simulation {

class SimulatedNode {
 public:
  struct Options {
    std::string dir;              // holds the spool and the state
    RankOptions rank;             // options of its first rank
    uint32_t rank_stride = 1;     // distance between the numbers of its ranks
    std::vector<uint32_t> rings;  // at most, for each of its ranks
    uint32_t children = 0;        // forked, of each rank
    absl::Duration log_pause;     // of a rank, between bursts of rows
    double disk_faults = 0;       // probability at each check
    double daemon_deaths = 0;     // probability at each step
    bool bursts = true;           // a rank is sometimes far ahead of the others
    bool clock_steps = false;     // somebody sets the wall clock
    double rank_deaths = 0.003;   // probability at each burst of rows
    double restarts = 0;          // probability that a dead rank restarts
    bool removes = false;         // its daemon removes everything that is delivered
    bool reopens = false;         // its runs often continue after their end; each step is judged
    bool uploads = false;         // its ranks log artifacts and save files
    bool same_pids = false;       // a new process has the number of the old one, as in containers
    bool must_not_continue = false;  // a resumed job must not continue its runs
    bool pauses = false;             // its ranks are silent now and then
    PeerNetwork* network = nullptr;  // between the nodes' daemons; null: they are not joined
  };

  // All pointers must outlive this object.
  SimulatedNode(World* world, Oracle* oracle, Tracker* tracker, SeedResult* outcome,
                const Options& options);

  void Start(int64_t step);
  // Each of its ranks finishes or dies.
  void EndRanks();
  // New processes of another start continue from `step`. Old ones that are left die.
  void ResumeRanks(int64_t step);
  // Its ranks and its daemon die. No daemon starts until Return(). The disk and the rings stay.
  void Leave();
  void Return();
  void LeaveForEver();
  bool gone() const { return gone_; }
  // The present daemon; null: none.
  DaemonLife* daemon() const { return daemon_.get(); }
  uint64_t lives() const { return lives_; }
  void CutPower();
  // Its ranks finish or die, if they do not end later.
  void EndFaults(bool end_ranks);
  void RestartDaemon();
  // Everything is at rest: no live rank, no ring, nothing to deliver.
  bool Delivered() const;
  // The home has all of its ranks' rows, or took no more.
  bool Joined() const;
  // The daemon closes its files. The oracle then judges the store, and the copies from before the
  // removal of runs.
  void Close();
  const std::vector<Removed>& removed() const { return removed_; }
  absl::StatusOr<std::unique_ptr<storage::StoreReader>> OpenStore() const;

 private:
  // Copies the store for the oracle, since nothing else remembers a run after its removal.
  void CopyStore();
  // Records which runs were removed since the copy.
  void NoteRemoved();
  void StartDaemon();
  void KillDaemon(const std::string& why);
  // In ranks_of_node.cc.
  void StartRank(size_t index, int64_t step);
  void KillRank(size_t index);
  bool EndChild(size_t index, bool exited);  // false: none
  void TickRank(size_t index, uint64_t process);
  void LogRank(size_t index, uint64_t process);
  void RestartRank(size_t index, uint64_t process);
  void NoteWhatEnded(uint32_t rank);
  void StepDaemon(uint64_t life);
  // Checks that no delivery of a running run is complete.
  void JudgeDeliveries();
  void DisturbDisk();
  void StepClock();
  Daemon Reach();  // in reach.cc

  World& world_;
  Oracle& oracle_;
  Tracker& tracker_;
  SeedResult& outcome_;
  const Options options_;
  WallClock wall_clock_;
  testing::FaultyVfs vfs_;
  const Daemon reach_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<uint64_t> processes_;      // number of processes so far, for each rank
  uint64_t start_ = 0;                   // of the job at this node
  std::vector<std::string> left_rings_;  // of dead ranks
  std::unique_ptr<DaemonLife> daemon_;
  uint64_t lives_ = 0;
  std::string copy_;                // path of the copy from before a possible removal
  std::vector<model::Run> copied_;  // runs in the copy
  uint64_t copies_ = 0;
  std::vector<Removed> removed_;
  bool logging_ = true;
  bool left_ = false;
  bool gone_ = false;  // it never returns
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATED_NODE_H_
