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
    std::vector<uint32_t> rings;  // of each of its ranks
    absl::Duration log_pause;     // of a rank, between bursts of rows
    double disk_faults = 0;       // at each look
    double daemon_deaths = 0;     // at each step
    bool bursts = true;           // a rank is now and then far ahead of the others
    bool clock_steps = false;     // somebody sets the wall clock
  };

  // All that is handed over outlives this.
  SimulatedNode(World* world, Oracle* oracle, Tracker* tracker, Outcome* outcome,
                const Options& options);

  void Start();
  void CutPower();
  void EndFaults();
  // Everything came to rest: no rank, no ring, nothing to deliver.
  bool Delivered() const;
  // The daemon closes its files; what the store says is judged by this.
  void Close();
  absl::StatusOr<std::unique_ptr<storage::StoreReader>> OpenStore() const;

 private:
  void StartDaemon();
  void KillDaemon(const std::string& why);
  void KillRank(size_t index);
  void TickRank(size_t index);
  void LogRank(size_t index);
  void StepDaemon(uint64_t life);
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
  std::vector<std::string> left_rings_;  // of ranks that are gone
  std::unique_ptr<DaemonLife> daemon_;
  uint64_t lives_ = 0;
  bool logging_ = true;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATED_NODE_H_
