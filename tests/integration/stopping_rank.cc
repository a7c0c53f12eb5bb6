// A rank that sends an alert, and logs until the run's page asks it to stop.
//
//   stopping_rank
//
// Its exit code is 0 after the request, and 4 after half a minute without one.

#include <unistd.h>

#include <string>

#include "ranklog/ranklog.h"

int main() {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  ranklog::AlertOptions alert;
  alert.title = "rank " + std::to_string(run.settings().rank.value_or(0)) + " begins";
  alert.text = "two\nlines";
  alert.level = ranklog::AlertLevel::kWarn;
  if (!run.Alert(alert)) return 5;
  int exit_code = 4;
  for (int step = 0; step < 3000 && exit_code != 0; ++step) {
    run.Log({{"loss", 0.5}}, step);
    usleep(10000);
    if (run.stop_requested()) exit_code = 0;
  }
  run.Finish(exit_code);
  return exit_code;
}
