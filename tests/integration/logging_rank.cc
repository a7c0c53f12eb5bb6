// A rank for the integration tests: logs rows whose values tell rank and step, then ends as it is
// told.
//
//   logging_rank ROWS [EXIT_CODE [PAUSE_US [STOP_FILE [FIRST_STEP]]]]
//
// Row n of rank r, at step n: loss = 1000 r + n, shared = r, n from FIRST_STEP on. Fewer rows once
// STOP_FILE is there; with ROWS = 0 it waits for that file.
// Ends with Finish(EXIT_CODE), and prints how many calls of Log() returned true and whether all was
// durable.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  const long rows = argc > 1 ? atol(argv[1]) : 10;
  const int exit_code = argc > 2 ? atoi(argv[2]) : 0;
  const useconds_t pause_us = argc > 3 ? static_cast<useconds_t>(atoi(argv[3])) : 0;
  const char* const stop_file = argc > 4 ? argv[4] : nullptr;
  const long first_step = argc > 5 ? atol(argv[5]) : 0;
  ranklog::Settings settings = ranklog::Settings::FromEnvironment();
  ranklog::Run run = ranklog::Init(settings);
  const int rank = *run.settings().rank;
  run.Config({{"lr", 0.5}, {"model", ranklog::Value::Object({{"layers", 2}, {"name", "tiny"}})}});
  run.DefineMetric("loss", {.summary = {"min", "last"}});
  long logged = 0;
  for (long step = first_step; step < first_step + rows; ++step) {
    if (stop_file != nullptr && access(stop_file, F_OK) == 0) break;
    while (!run.Log({{"loss", 1000.0 * rank + static_cast<double>(step)}, {"shared", rank}}, step))
      usleep(1000);
    ++logged;
    if (pause_us > 0) usleep(pause_us);
  }
  while (rows == 0 && stop_file != nullptr && access(stop_file, F_OK) != 0) usleep(10000);
  const bool durable = run.Finish(exit_code) == ranklog::FlushResult::kDurable;
  printf("logged %ld, %s\n", logged, durable ? "durable" : "spooled");
  return durable ? 0 : 3;
}
