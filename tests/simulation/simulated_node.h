// The node of one seed, with all that is on it. simulation.h is what others use.

#ifndef TESTS_SIMULATION_SIMULATED_NODE_H_
#define TESTS_SIMULATION_SIMULATED_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/daemon.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/rank.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/tracker.h"
#include "tests/simulation/world.h"
#include "tests/support/faulty_vfs.h"

namespace ranklog::simulation {

// How the daemon, the ranks and the disk live and die is in simulated_node.cc; what comes of it, in
// simulation.cc.
class SimulatedNode {
 public:
  SimulatedNode(uint64_t seed, const std::string& dir, bool keep_trace);
  Outcome Run();

 private:
  void StartDaemon();
  void KillDaemon(const std::string& why);
  void KillRank(size_t index);
  void CutPower();
  void TickRank(size_t index);
  void LogRank(size_t index);
  void StepDaemon(uint64_t life);
  void DisturbDisk();
  void EndFaults();
  bool AllDelivered();
  void Judge();
  Daemon Reach();

  World world_;
  const std::string dir_;
  Outcome outcome_;
  testing::FaultyVfs vfs_;
  Oracle oracle_;
  std::unique_ptr<Tracker> tracker_;
  Daemon reach_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::string> left_rings_;  // of ranks that are gone
  std::unique_ptr<DaemonLife> daemon_;
  uint64_t lives_ = 0;
  bool logging_ = true;
  absl::Duration log_pause_;
  double disk_faults_;
  double daemon_deaths_;
  bool fault_in_disk_ = false;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATED_NODE_H_
