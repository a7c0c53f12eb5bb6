// What tests/benchmarks/run.py judges: a benchmark's figures, each with its goal.

#ifndef TESTS_BENCHMARKS_FIGURES_H_
#define TESTS_BENCHMARKS_FIGURES_H_

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

namespace ranklog::benchmarks {

// States a figure, named by its unit (`slowest_ms`), that must not be above `goal`. A benchmark may
// have several, all listed in run.py; other counters are printed beside them and not judged.
inline void AtMost(benchmark::State& state, const std::string& figure, double value, double goal) {
  state.counters[figure] = value;
  state.counters["at_most " + figure] = goal;
}
// The same for one that must not be below it.
inline void AtLeast(benchmark::State& state, const std::string& figure, double value, double goal) {
  state.counters[figure] = value;
  state.counters["at_least " + figure] = goal;
}

// `full`, or `brief` in a short run, which only shows that the benchmark runs (run.py --short).
template <typename Size>
Size SizeOf(Size full, Size brief) {
  return std::getenv("RANKLOG_BENCHMARK_SHORT") == nullptr ? full : brief;
}

}  // namespace ranklog::benchmarks

#endif  // TESTS_BENCHMARKS_FIGURES_H_
