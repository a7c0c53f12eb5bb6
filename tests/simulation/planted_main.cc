// simulation_planted: plants each known bug in turn, and says how many seeds it takes to find it.

#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/simulation/simulation.h"

namespace ranklog::simulation {
namespace {

constexpr uint64_t kMostSeeds = 400;

constexpr const char* kBugs[] = {"ack_before_commit",
                                 "commit_error_ignored",
                                 "ack_before_sync",
                                 "ring_freed_at_send",
                                 "duplicate_not_dropped",
                                 "drain_skips_last_record",
                                 "crash_unseen",
                                 "cursor_saved_before_answer",
                                 "offset_not_persisted",
                                 "dead_letter_not_stored",
                                 "resend_renumbered",
                                 "retry_after_ignored",
                                 "place_asked_once",
                                 "late_rows_not_counted",
                                 "aggregated_seq_not_stored",
                                 "wait_by_wall_clock",
                                 "config_lost_on_restart",
                                 "late_definition_unseen",
                                 "summary_of_new_rows_only",
                                 "rank_counted_twice",
                                 "ranks_part_dropped",
                                 "step_not_waited_for",
                                 "new_beginning_unseen",
                                 "stamps_by_the_clock",
                                 "resumed_run_stays_ended",
                                 "silence_taken_for_refusal",
                                 "nodes_share_a_run",
                                 "undelivered_run_removed"};

const char* planted = "";

}  // namespace

bool Planted(const char* bug);
bool Planted(const char* bug) { return std::strcmp(bug, planted) == 0; }

namespace {

bool Find(const char* bug, const std::string& scratch) {
  planted = bug;
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    const Outcome outcome = Simulate(seed, scratch, /*keep_trace=*/false);
    if (outcome.wrong.empty()) continue;
    std::printf("%-28s seed %llu: %s\n", bug, static_cast<unsigned long long>(seed),
                outcome.wrong[0].c_str());
    std::fflush(stdout);
    return true;
  }
  std::printf("%-28s not found by %llu seeds\n", bug, static_cast<unsigned long long>(kMostSeeds));
  std::fflush(stdout);
  return false;
}

}  // namespace
}  // namespace ranklog::simulation

// Arguments: the bugs to plant, by name, or a part of them as K/N: every N-th from the K-th on.
// None: all.
int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);
  std::string scratch =
      (std::filesystem::exists("/dev/shm") ? std::string("/dev/shm")
                                           : std::filesystem::temp_directory_path().string()) +
      "/rl-planted-XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) return 1;
  bool all = true;
  const std::vector<std::string> chosen(argv + 1, argv + argc);
  size_t first = 1, parts = 1;
  const bool part = argc == 2 && std::sscanf(argv[1], "%zu/%zu", &first, &parts) == 2;
  size_t found = 0;
  for (size_t i = 0; i < std::size(ranklog::simulation::kBugs); ++i) {
    const char* const bug = ranklog::simulation::kBugs[i];
    const bool wanted = chosen.empty() || (part && i % parts == first - 1) ||
                        std::find(chosen.begin(), chosen.end(), bug) != chosen.end();
    if (!wanted) continue;
    ++found;
    all &= ranklog::simulation::Find(bug, scratch);
  }
  if (found == 0) std::fprintf(stderr, "simulation_planted: no such bug\n");
  all &= found > 0;
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  return all ? 0 : 1;
}
