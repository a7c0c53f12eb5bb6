// A rank that calls Log() once for each row, whatever it returns, and then prints the result.
//
//   telling_rank ROWS [RUN_ID]
//
// Prints the calls of Log() that returned true, Stats::lost_ring_full, and Stats::last_error. Its
// exit code is that of a training: 0. With RUN_ID, it waits until Stats::run_id is that, for at
// most half a minute (exit code 4).

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  const long rows = argc > 1 ? atol(argv[1]) : 10;
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  long returned = 0;
  for (long step = 0; step < rows; ++step) returned += run.Log({{"loss", 0.5}}, step) ? 1 : 0;
  ranklog::Stats stats = run.stats();
  for (int i = 0; argc > 2 && stats.run_id != argv[2]; ++i) {
    if (i == 3000) return 4;
    usleep(10000);
    stats = run.stats();
  }
  run.Finish(0);
  printf("returned %ld, ring full %lu: %s\n", returned,
         static_cast<unsigned long>(stats.lost_ring_full), stats.last_error.c_str());
  return 0;
}
