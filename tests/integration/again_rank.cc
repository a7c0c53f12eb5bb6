// A rank that trains twice in one process, with one Init() each.
//
//   again_rank finish|destroy
//
// Logs rows {"loss": n} at steps 0 to 99, and ends its Run in the given way. Then logs at steps 80
// to 179 in the next Run. Exits with 0 if both got a run and all of the second is durable.

#include <string>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const int first : {0, 80}) {
    ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
    for (int step = first; step < first + 100; ++step) {
      if (!run.Log({{"loss", step}}, step)) return 1;
    }
    if (first == 0 && argv[1] == std::string("destroy")) continue;
    if (run.Finish(0) != ranklog::FlushResult::kDurable) return 3;
  }
  return 0;
}
