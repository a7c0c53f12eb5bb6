// One seed: a job, a daemon, a disk, a network and a backend, and all that goes wrong with them.

#ifndef TESTS_SIMULATION_SIMULATION_H_
#define TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ranklog::simulation {

struct Outcome {
  uint64_t seed = 0;
  std::vector<std::string> wrong;  // empty: every promise was kept
  uint64_t hash = 0;               // of all that happened
  std::vector<std::string> trace;  // if it was asked for
  uint64_t rows = 0;
  uint64_t daemon_deaths = 0;
  uint64_t rank_deaths = 0;
  uint64_t power_cuts = 0;
};

// Deterministic: the same seed gives the same outcome. Takes some tens of milliseconds, and a
// directory of its own below `scratch_dir`.
Outcome Simulate(uint64_t seed, const std::string& scratch_dir, bool keep_trace);

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATION_H_
