// The job of one seed, its nodes and the tracker. Other code uses simulation.h.

#ifndef TESTS_SIMULATION_SIMULATED_JOB_H_
#define TESTS_SIMULATION_SIMULATED_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/oracle.h"
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
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  bool resumes_ = false;
  bool reopens_ = false;
  bool moves_ = false;  // the job is resumed on another node
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATED_JOB_H_
