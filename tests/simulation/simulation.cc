#include "tests/simulation/simulation.h"

#include <stdlib.h>

#include <filesystem>

#include "tests/simulation/simulated_job.h"

namespace ranklog::simulation {

SeedResult Simulate(uint64_t seed, const std::string& scratch_dir, bool keep_trace) {
  std::string dir = scratch_dir + "/seed-XXXXXX";
  SeedResult outcome;
  if (mkdtemp(dir.data()) == nullptr) {
    outcome.seed = seed;
    outcome.wrong = {"no directory"};
    return outcome;
  }
  {
    SimulatedJob job(seed, dir, keep_trace);
    outcome = job.Run();
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  return outcome;
}

}  // namespace ranklog::simulation
