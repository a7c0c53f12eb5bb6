// simulation_planted: plants known bugs in turn, and prints the seed that finds each.

#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/simulation/simulation.h"

namespace ranklog::simulation {
namespace {

constexpr char kUsage[] =
    R"(Usage: simulation_planted [--search S] NAME=SEED...

Plants each bug in turn, and fails if no seed finds it: not SEED, which did once, nor 400 from 1 on. A seed counts
that fails with the bug and passes without. Prints it.

  --search S   leave SEED out, and try 2000 from S on; skips a bug whose SEED is above 2000
)";
// Most bugs are found by one seed in 300 or more. A test has a time limit, a search has none.
constexpr uint64_t kSeedsOfTest = 400, kSeedsOfSearch = 2000;

struct Bug {
  std::string name;
  uint64_t known_seed = 0;
};

const char* planted = "";

}  // namespace

bool Planted(const char* bug);
bool Planted(const char* bug) { return std::strcmp(bug, planted) == 0; }

namespace {

std::vector<std::string> Wrong(uint64_t seed, const char* bug, const std::string& scratch) {
  planted = bug;
  return Simulate(seed, scratch, /*keep_trace=*/false).wrong;
}

// One seed may find several bugs.
bool PassesWithoutABug(uint64_t seed, const std::string& scratch) {
  static std::set<uint64_t> passed;
  if (passed.count(seed) == 0 && Wrong(seed, "", scratch).empty()) passed.insert(seed);
  return passed.count(seed) != 0;
}

bool IsFoundBy(uint64_t seed, const Bug& bug, const std::string& scratch) {
  const std::vector<std::string> wrong = Wrong(seed, bug.name.c_str(), scratch);
  if (wrong.empty()) return false;
  if (!PassesWithoutABug(seed, scratch)) {
    std::printf("seed %" PRIu64 " fails without a bug\n", seed);
    return false;
  }
  std::printf("%-28s seed %" PRIu64 ": %s\n", bug.name.c_str(), seed, wrong[0].c_str());
  return true;
}

// `search`: the first seed to try instead of the known one.
bool Find(const Bug& bug, std::optional<uint64_t> search, const std::string& scratch) {
  const uint64_t usual = bug.known_seed >= kPeerSeeds     ? kPeerSeeds
                         : bug.known_seed >= kUploadSeeds ? kUploadSeeds
                                                          : 1;
  if (search && bug.known_seed > kSeedsOfSearch && usual == 1) {
    std::printf("%-28s is too rare for a search\n", bug.name.c_str());
    return true;
  }
  if (!search && IsFoundBy(bug.known_seed, bug, scratch)) return true;
  if (!search) {
    std::printf("%s: seed %" PRIu64 " does not find it any more; update planted_bugs.md\n",
                bug.name.c_str(), bug.known_seed);
  }
  const uint64_t first = search.value_or(1) - 1 + usual,
                 most = search ? kSeedsOfSearch : kSeedsOfTest;
  for (uint64_t seed = first; seed < first + most; ++seed) {
    if (IsFoundBy(seed, bug, scratch)) return true;
  }
  std::printf("%-28s not found by %" PRIu64 " seeds from %" PRIu64 " on\n", bug.name.c_str(), most,
              first);
  return false;
}

}  // namespace
}  // namespace ranklog::simulation

int main(int argc, char** argv) {
  using namespace ranklog::simulation;
  std::vector<Bug> bugs;
  std::optional<uint64_t> search;
  bool valid = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--search") == 0) {
      valid &= ++i < argc && absl::SimpleAtoi(argv[i], &search.emplace());
      continue;
    }
    const std::pair<std::string, std::string> bug =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    bugs.push_back({.name = bug.first});
    valid &= absl::SimpleAtoi(bug.second, &bugs.back().known_seed);
  }
  if (!valid || bugs.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  spdlog::set_level(spdlog::level::off);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string scratch =
      (std::filesystem::exists("/dev/shm") ? std::string("/dev/shm")
                                           : std::filesystem::temp_directory_path().string()) +
      "/rl-planted-XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) return 1;
  bool all = true;
  for (const Bug& bug : bugs) all &= Find(bug, search, scratch);
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  return all ? 0 : 1;
}
