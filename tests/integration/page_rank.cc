// A rank whose run fills every view of the local page.
//
//   page_rank STEPS METRICS [PAUSE_US [silent|lossy|odd]]
//
// At each step it logs train/loss, which falls and differs between ranks, step_time, which is larger on
// rank 3 at every step and has one peak, lr, and more metrics extra/0, extra/1, ... up to METRICS in
// all. It captures its console, unless it is silent, and prints a line per 100 steps, and texts that
// would be markup in a page that does not escape them. If lossy, it is silent, and logs one row that is
// refused, and an artifact. If odd, it is silent, and train/loss is NaN from step 50 to 59, except at 55, inf at 100 and
// -inf at 150. It has four more metrics: "__proto__" and "constructor", which are the step; "tokens",
// which is 2^53 - 100 and the step; and "diverged", which is NaN from step 80 on.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  const long steps = argc > 1 ? atol(argv[1]) : 1000;
  const long metrics = argc > 2 ? atol(argv[2]) : 6;
  const useconds_t pause_us = argc > 3 ? static_cast<useconds_t>(atoi(argv[3])) : 0;
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  const int rank = *run.settings().rank;
  if (argc <= 4) run.CaptureConsole();
  run.Config({{"lr", 3e-4},
              {"note", "<img src=x onerror=\"document.title='hacked'\">"},
              {"model", ranklog::Value::Object({{"layers", 12}, {"name", "gpt2"}})}});
  run.DefineMetric("val/accuracy", {.goal = "maximize"});
  std::vector<std::string> names = {"train/loss", "step_time", "lr"};
  for (long i = 3; i < metrics; ++i) names.push_back("extra/" + std::to_string(i - 3));
  const bool odd = argc > 4 && strcmp(argv[4], "odd") == 0;
  if (odd) names.insert(names.end(), {"__proto__", "constructor", "tokens", "diverged"});
  std::vector<ranklog::Metric> row;
  for (const std::string& name : names) row.emplace_back(name.c_str(), 0.0);
  if (rank == 0) puts("<script>document.title='hacked'</script> \x1b[31mred\x1b[0m");
  for (long step = 0; step < steps; ++step) {
    const double x = static_cast<double>(step);
    const double noise = std::sin(x * 12.9898 + rank * 78.233) * 43758.5453;
    const double wobble = noise - std::floor(noise);  // 0 to 1
    const double peak = step == steps / 3 && rank == 5 ? 0.05 : 0;
    const double values[] = {
        1.8 + 3.2 * std::exp(-x / 250) + (0.05 + 0.25 * std::exp(-x / 400)) * wobble + 0.01 * rank,
        0.101 + 0.004 * wobble + (rank == 3 ? 0.01 : 0) + peak,
        3e-4 * std::fmin(1, x / 100) *
            (0.5 + 0.5 * std::cos(x / static_cast<double>(steps) * 3.1416))};
    for (size_t i = 0; i < row.size(); ++i) {
      row[i].number =
          i < 3 ? values[i] : std::sin(x / (20.0 + 7 * static_cast<double>(i))) + wobble * 0.2;
    }
    if (odd) {
      if (step >= 50 && step < 60 && step != 55) row[0].number = NAN;
      if (step == 100) row[0].number = INFINITY;
      if (step == 150) row[0].number = -INFINITY;
      const size_t first = row.size() - 4;
      row[first].number = row[first + 1].number = x;
      row[first + 2] = ranklog::Metric("tokens", (int64_t{1} << 53) - 100 + step);
      if (step >= 80) row.back().number = NAN;
    }
    while (!run.Log(row, step)) usleep(1000);
    if (step % 100 == 0) {
      printf("rank %d: step %ld, loss %.3f\n", rank, step, values[0]);
      fflush(stdout);
    }
    if (pause_us > 0) usleep(pause_us);
  }
  if (argc > 4 && strcmp(argv[4], "lossy") == 0) {
    run.Log(row, 0);
    run.LogArtifact({.name = "weights", .type = "model", .paths = {argv[0]}});
  }
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 1;
}
