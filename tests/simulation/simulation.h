// One seed: a job, a daemon, a disk, a network and a tracker, with all their faults.

#ifndef TESTS_SIMULATION_SIMULATION_H_
#define TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ranklog::simulation {

// The ranks of seeds from this one on log artifacts and save files, too.
inline constexpr uint64_t kUploadSeeds = 1'000'000'000;
// In seeds from this one on, the ranks of two to four nodes are joined in the run of rank 0.
inline constexpr uint64_t kPeerSeeds = 2'000'000'000;

struct SeedResult {
  uint64_t seed = 0;
  std::vector<std::string> wrong;  // empty: every promise was kept
  uint64_t hash = 0;               // of all events
  std::vector<std::string> trace;  // if `keep_trace` is set
  uint64_t rows = 0;
  uint64_t daemon_deaths = 0;
  uint64_t rank_deaths = 0;
  uint64_t power_cuts = 0;
};

// Deterministic: the same seed gives the same outcome. Takes tens of milliseconds, and makes its
// own directory below `scratch_dir`.
SeedResult Simulate(uint64_t seed, const std::string& scratch_dir, bool keep_trace);

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_SIMULATION_H_
