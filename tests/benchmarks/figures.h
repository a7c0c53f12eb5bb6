// The figures of a benchmark that tests/benchmarks/run.py judges, each with its goal.

#ifndef TESTS_BENCHMARKS_FIGURES_H_
#define TESTS_BENCHMARKS_FIGURES_H_

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

namespace ranklog::benchmarks {

// Reports a figure that must not exceed `goal`. Its name contains its unit (`slowest_ms`). A
// benchmark may have several, all listed in run.py. Other counters are printed beside them, but not
// judged.
inline void AtMost(benchmark::State& state, const std::string& figure, double value, double goal) {
  state.counters[figure] = value;
  state.counters["at_most " + figure] = goal;
}
// The same for a figure that must not be below its goal.
inline void AtLeast(benchmark::State& state, const std::string& figure, double value, double goal) {
  state.counters[figure] = value;
  state.counters["at_least " + figure] = goal;
}

// Returns `full`, or `brief` in a short run, which only shows that the benchmark runs (run.py
// --short).
template <typename Size>
Size SizeOf(Size full, Size brief) {
  return std::getenv("RANKLOG_BENCHMARK_SHORT") == nullptr ? full : brief;
}

}  // namespace ranklog::benchmarks

#endif  // TESTS_BENCHMARKS_FIGURES_H_
