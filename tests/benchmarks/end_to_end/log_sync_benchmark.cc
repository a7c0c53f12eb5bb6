// `ranklog sync` beside `wandb sync`: an offline run of W&B's SDK with ten metrics per row.

#include <benchmark/benchmark.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/benchmarks/figures.h"

namespace {

using ranklog::benchmarks::AtLeast;
using ranklog::benchmarks::SizeOf;

constexpr int kAbsent = 77;  // wandb_python.sh

void BM_LogSyncVersusWandb(benchmark::State& state) {
  const int rows = SizeOf(100'000, 1'000);
  const std::string command = std::string(WITH_SDK) + " ../benchmarks/end_to_end/log_sync.py " +
                              FAKE_WANDB + " " + RANKLOG_CLI + " " + std::to_string(rows);
  for (auto _ : state) {
    FILE* const pipe = popen(command.c_str(), "r");
    std::string output;
    for (int c = 0; pipe != nullptr && (c = fgetc(pipe)) != EOF;) output += static_cast<char>(c);
    const int code = pipe == nullptr ? -1 : pclose(pipe);
    if (WIFEXITED(code) && WEXITSTATUS(code) == kAbsent) {
      return state.SkipWithError("absent: W&B's SDK");
    }
    const auto results = nlohmann::json::parse(output, nullptr, /*allow_exceptions=*/false);
    if (code != 0 || results.is_discarded()) return state.SkipWithError("log_sync.py failed");
    const auto ratio = [&](const char* figure) {
      return results["wandb"][figure].get<double>() / results["ranklog"][figure].get<double>();
    };
    // The server takes most of the elapsed time of `ranklog sync`.
    AtLeast(state, "elapsed_ratio", ratio("elapsed_s"), 8);
    AtLeast(state, "cpu_ratio", ratio("cpu_s"), 25);
    AtLeast(state, "memory_ratio", ratio("peak_mib"), 2);
    state.counters["ranklog_cpu_s"] = results["ranklog"]["cpu_s"].get<double>();
    state.counters["ranklog_peak_mib"] = results["ranklog"]["peak_mib"].get<double>();
  }
}
BENCHMARK(BM_LogSyncVersusWandb)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();
