// simulation: runs seeds, and prints those that fail.

#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "tests/simulation/simulation.h"

namespace {

constexpr char kUsage[] =
    R"(Usage: simulation [--seeds N] [--first-seed S] [--minutes M] [--seed S [--trace]] [--twice] [--json]

Runs the client's protocol and the daemon's stages on simulated time against every fault, and judges that each row
is at the tracker once. Exit code 1 if a seed fails.

  --seeds N        this many seeds (default 100)
  --first-seed S   from this one on (default 1)
  --minutes M      go on for so long instead
  --seed S         only this one
  --trace          print all that happens, and what the daemon logs
  --twice          run each seed twice, and fail if it does not go the same way
  --json           print a summary as JSON

Examples:
  simulation --seeds 2000
  simulation --seed 4711 --trace
)";

struct Arguments {
  uint64_t seeds = 100;
  uint64_t first = 1;
  double minutes = 0;
  bool trace = false;
  bool twice = false;
  bool json = false;
  bool valid = true;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    bool takes_value = true;
    if (name == "--seeds") {
      arguments.valid &= absl::SimpleAtoi(value, &arguments.seeds);
    } else if (name == "--first-seed") {
      arguments.valid &= absl::SimpleAtoi(value, &arguments.first);
    } else if (name == "--minutes") {
      arguments.valid &= absl::SimpleAtod(value, &arguments.minutes);
    } else if (name == "--seed") {
      arguments.valid &= absl::SimpleAtoi(value, &arguments.first);
      arguments.seeds = 1;
    } else {
      takes_value = false;
      arguments.trace |= name == "--trace";
      arguments.twice |= name == "--twice";
      arguments.json |= name == "--json";
      arguments.valid &= name == "--trace" || name == "--twice" || name == "--json";
    }
    i += takes_value ? 1 : 0;
  }
  return arguments;
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

void Print(const ranklog::simulation::SeedResult& outcome) {
  for (const std::string& line : outcome.trace) std::printf("%s\n", line.c_str());
  if (!outcome.trace.empty()) {
    std::printf("hash %016llx\n", static_cast<unsigned long long>(outcome.hash));
  }
  if (outcome.wrong.empty()) return;
  std::printf("seed %llu fails; --seed %llu --trace shows how:\n",
              static_cast<unsigned long long>(outcome.seed),
              static_cast<unsigned long long>(outcome.seed));
  for (const std::string& wrong : outcome.wrong) std::printf("  %s\n", wrong.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  if (!arguments.valid) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (!arguments.trace) spdlog::set_level(spdlog::level::off);
  const std::string memory = "/dev/shm";
  std::string scratch =
      (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path().string()) +
      "/rl-simulation-XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) return 1;

  const auto start = std::chrono::steady_clock::now();
  uint64_t seeds = 0, rows = 0, daemon_deaths = 0, rank_deaths = 0, power_cuts = 0;
  nlohmann::json failed = nlohmann::json::array();
  for (uint64_t seed = arguments.first;; ++seed, ++seeds) {
    if (arguments.minutes > 0 ? Seconds(start) >= arguments.minutes * 60
                              : seeds == arguments.seeds) {
      break;
    }
    auto outcome = ranklog::simulation::Simulate(seed, scratch, arguments.trace);
    if (arguments.twice &&
        ranklog::simulation::Simulate(seed, scratch, /*keep_trace=*/false).hash != outcome.hash) {
      outcome.wrong.push_back("the same seed went another way: something is left to chance");
    }
    rows += outcome.rows;
    daemon_deaths += outcome.daemon_deaths;
    rank_deaths += outcome.rank_deaths;
    power_cuts += outcome.power_cuts;
    Print(outcome);
    std::fflush(stdout);
    if (!outcome.wrong.empty()) failed.push_back(seed);
    if (isatty(STDERR_FILENO) && seeds % 10 == 0) {
      std::fprintf(stderr, "\r%llu seeds, %zu failed ", static_cast<unsigned long long>(seeds + 1),
                   failed.size());
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  const double seconds = Seconds(start);
  const nlohmann::json summary = {{"first_seed", arguments.first},
                                  {"seeds", seeds},
                                  {"failed_seeds", failed},
                                  {"rows", rows},
                                  {"daemon_deaths", daemon_deaths},
                                  {"rank_deaths", rank_deaths},
                                  {"power_cuts", power_cuts},
                                  {"seconds", seconds},
                                  {"seeds_per_second", static_cast<double>(seeds) / seconds}};
  if (arguments.json) {
    std::printf("%s\n", summary.dump().c_str());
  } else {
    std::printf(
        "%llu seeds in %.1f s: %llu rows, %llu deaths of daemons, %llu of ranks, %llu "
        "power cuts; %zu seeds failed\n",
        static_cast<unsigned long long>(seeds), seconds, static_cast<unsigned long long>(rows),
        static_cast<unsigned long long>(daemon_deaths),
        static_cast<unsigned long long>(rank_deaths), static_cast<unsigned long long>(power_cuts),
        failed.size());
  }
  return failed.empty() ? 0 : 1;
}
