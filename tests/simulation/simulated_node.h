// One node of a seed: its ranks, its daemon, its disk, its wall clock, and how they live and die.

#ifndef TESTS_SIMULATION_SIMULATED_NODE_H_
#define TESTS_SIMULATION_SIMULATED_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/storage/store.h"
#include "tests/simulation/daemon.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/rank.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/tracker.h"
#include "tests/simulation/world.h"
#include "tests/support/faulty_vfs.h"

namespace ranklog::simulation {

class SimulatedNode {
 public:
  struct Options {
    std::string dir;              // the spool and the state are below it
    RankOptions rank;             // of its first
    uint32_t rank_stride = 1;     // from one of its ranks to the next
    std::vector<uint32_t> rings;  // of each of its ranks, at most
    absl::Duration log_pause;     // of a rank, between bursts of rows
    double disk_faults = 0;       // at each look
    double daemon_deaths = 0;     // at each step
    bool bursts = true;           // a rank is now and then far ahead of the others
    bool clock_steps = false;     // somebody sets the wall clock
    double rank_deaths = 0.003;   // of a rank, at each burst of rows
    double restarts = 0;          // of a rank that died
    bool removes = false;         // its daemon keeps nothing that is delivered
    bool reopens = false;         // its runs often go on after their end; each step is judged
    bool same_pids = false;       // as in containers: a new process has the number of the old
    bool starts_anew = false;     // a job that is resumed is not to go on in its runs
  };

  // All that is handed over outlives this.
  SimulatedNode(World* world, Oracle* oracle, Tracker* tracker, Outcome* outcome,
                const Options& options);

  void Start(int64_t step);
  // Its ranks finish, or die.
  void EndRanks();
  // New processes, of another start, go on from `step`; what is left of the old ones dies.
  void ResumeRanks(int64_t step);
  // Its ranks and its daemon die, and no daemon comes before somebody returns. What is on the disk
  // and the rings stay.
  void Leave();
  void Return();
  void CutPower();
  void EndFaults();
  // Everything came to rest: no rank, no ring, nothing to deliver.
  bool Delivered() const;
  // The daemon closes its files; what the stores say is judged by this, and by what they were
  // before a run was removed.
  void Close();
  const std::vector<Removed>& removed() const { return removed_; }
  absl::StatusOr<std::unique_ptr<storage::StoreReader>> OpenStore() const;

 private:
  // A copy of the store, for the oracle: once a run is gone from it nobody else can tell.
  void CopyStore();
  // Which runs are gone since then.
  void NoteRemoved();
  void StartDaemon();
  void KillDaemon(const std::string& why);
  // In ranks_of_node.cc.
  void StartRank(size_t index, int64_t step);
  void KillRank(size_t index);
  void TickRank(size_t index, uint64_t process);
  void LogRank(size_t index, uint64_t process);
  void RestartRank(size_t index, uint64_t process);
  void NoteWhatEnded(uint32_t rank);
  void StepDaemon(uint64_t life);
  // Nothing is delivered to its end while its run goes on.
  void JudgeDeliveries();
  void DisturbDisk();
  void StepClock();
  Daemon Reach();  // in reach.cc

  World& world_;
  Oracle& oracle_;
  Tracker& tracker_;
  Outcome& outcome_;
  const Options options_;
  WallClock wall_clock_;
  testing::FaultyVfs vfs_;
  const Daemon reach_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<uint64_t> processes_;      // of each rank: how many there were
  uint64_t start_ = 0;                   // of the job here
  std::vector<std::string> left_rings_;  // of ranks that are gone
  std::unique_ptr<DaemonLife> daemon_;
  uint64_t lives_ = 0;
  std::string copy_;                // of the store, before a run may have been removed
  std::vector<model::Run> copied_;  // the runs in it
  uint64_t copies_ = 0;
  std::vector<Removed> removed_;
  bool logging_ = true;
  bool left_ = false;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATED_NODE_H_
