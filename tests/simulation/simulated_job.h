// The job of one seed, its nodes and the tracker. Other code uses simulation.h.

#ifndef TESTS_SIMULATION_SIMULATED_JOB_H_
#define TESTS_SIMULATION_SIMULATED_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/join_watch.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/peer_network.h"
#include "tests/simulation/simulated_node.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/tracker.h"
#include "tests/simulation/world.h"

namespace ranklog::simulation {

class SimulatedJob {
 public:
  SimulatedJob(uint64_t seed, const std::string& dir, bool keep_trace);
  SeedResult Run();

 private:
  void AddNode(SimulatedNode::Options node, uint32_t index, uint32_t part, uint32_t parts);
  // In joined_job.cc.
  void SetUpPeers(uint32_t nodes, SimulatedNode::Options* node);
  void StartPeers(absl::Duration trouble, absl::Duration pause);
  void ResumePeers(int64_t step);
  void EndFaultsOfPeers();
  void LookAtHome();
  bool Joined(absl::Duration since_trouble) const;
  void JudgePeers();

  void EndJob();
  void ResumeJob();
  void ReturnToFirstNode();
  bool SecondNodeFeeds() const;
  bool Delivered() const;
  void Judge();

  World world_;
  SeedResult outcome_;
  Oracle oracle_;
  std::unique_ptr<Tracker> tracker_;
  std::unique_ptr<PeerNetwork> network_;  // null: the nodes are not joined
  std::unique_ptr<JoinWatch> watch_;      // the same
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  bool resumes_ = false;
  bool reopens_ = false;
  bool moves_ = false;  // the job is resumed on another node
  bool slow_ = false;   // the nodes are joined, and the job lasts longer than each wait for them
  absl::Duration resumed_within_ = absl::ZeroDuration();
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATED_JOB_H_
