// A rank for the integration tests. It logs rows whose values encode rank and step, then ends as
// requested.
//
//   logging_rank ROWS [EXIT_CODE [PAUSE_US [STOP_FILE [FIRST_STEP [THREADS]]]]]
//
// Row n of rank r is at step n, with loss = 1000 r + n and shared = r. n starts at FIRST_STEP;
// "none": rows without a step, n from 0 on. It stops early once STOP_FILE exists; with ROWS = 0 it
// waits for that file. Each of THREADS threads logs all rows. It ends with Finish(EXIT_CODE), and
// prints how many calls of Log() returned true, and whether everything was durable. EXIT_CODE
// `kill`: it is killed instead; `stay`: it prints "logged", and waits to be killed.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  const long rows = argc > 1 ? atol(argv[1]) : 10;
  const int exit_code = argc > 2 ? atoi(argv[2]) : 0;
  const useconds_t pause_us = argc > 3 ? static_cast<useconds_t>(atoi(argv[3])) : 0;
  const char* const stop_file = argc > 4 ? argv[4] : nullptr;
  const bool gives_steps = argc <= 5 || strcmp(argv[5], "none") != 0;
  const long first_step = argc > 5 && gives_steps ? atol(argv[5]) : 0;
  const int more_threads = argc > 6 ? atoi(argv[6]) - 1 : 0;
  ranklog::Settings settings = ranklog::Settings::FromEnvironment();
  ranklog::Run run = ranklog::Init(settings);
  const int rank = *run.settings().rank;
  run.Config({{"lr", 0.5}, {"model", ranklog::Value::Object({{"layers", 2}, {"name", "tiny"}})}});
  run.DefineMetric("loss", {.summary = {"min", "last"}});
  std::atomic<long> logged = 0;
  std::barrier all_have_rings(more_threads + 1);
  const auto log = [&] {
    // The daemon does not wait for the rows of a thread that it does not know yet.
    if (more_threads > 0) run.Config({{"lr", 0.5}});
    all_have_rings.arrive_and_wait();
    for (long step = first_step; step < first_step + rows; ++step) {
      if (stop_file != nullptr && access(stop_file, F_OK) == 0) break;
      const ranklog::Metric row[] = {{"loss", 1000.0 * rank + static_cast<double>(step)},
                                     {"shared", rank}};
      while (!(gives_steps ? run.Log(row, step) : run.Log(row))) usleep(1000);
      ++logged;
      if (pause_us > 0) usleep(pause_us);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < more_threads; ++i) threads.emplace_back(log);
  log();
  for (std::thread& thread : threads) thread.join();
  while (rows == 0 && stop_file != nullptr && access(stop_file, F_OK) != 0) usleep(10000);
  if (argc > 2 && strcmp(argv[2], "kill") == 0) raise(SIGKILL);
  if (argc > 2 && strcmp(argv[2], "stay") == 0) {
    puts("logged");
    fflush(stdout);
    pause();
  }
  const bool durable = run.Finish(exit_code) == ranklog::FlushResult::kDurable;
  printf("logged %ld, %s\n", logged.load(), durable ? "durable" : "spooled");
  return durable ? 0 : 3;
}
