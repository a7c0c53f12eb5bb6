// A process that makes many runs, one after the other.
//
//   many_runs_rank NAME FIRST LAST
//
// Run i of FIRST to LAST has the id NAME-i and one row {"n": i}. Exits with 0 if all were durable.

#include <cstdlib>
#include <string>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long last = atol(argv[3]);
  for (long i = atol(argv[2]); i <= last; ++i) {
    ranklog::Settings settings = ranklog::Settings::FromEnvironment();
    settings.run_id = argv[1];
    settings.run_id += '-';
    settings.run_id += std::to_string(i);
    ranklog::Run run = ranklog::Init(settings);
    if (!run.Log({{"n", static_cast<double>(i)}}, 0)) return 1;
    if (run.Finish(0) != ranklog::FlushResult::kDurable) return 3;
  }
  return 0;
}
