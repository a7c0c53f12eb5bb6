// A rank that logs 200 rows and ends without Finish(), in one of the ways that programs do.
//
//   ending_rank HOW
//
// HOW: segfault, abort, exception, exit (code 3), memory (writes to more and more of it), no-memory
// (the same under RLIMIT_AS), return (from main, the run's destructor runs).

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"

namespace {

void TakeMemory() {
  std::vector<std::string> taken;
  while (true) taken.emplace_back(8 << 20, 'x');
}

void End(const std::string& how) {
  if (how == "segfault") {
    void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile char*>(page) = 0;
  } else if (how == "abort") {
    abort();
  } else if (how == "exception") {
    throw std::runtime_error("the data loader failed");
  } else if (how == "exit") {
    _exit(3);
  } else if (how == "memory") {
    TakeMemory();
  } else if (how == "no-memory") {
    const rlimit limit = {2UL << 30, 2UL << 30};
    setrlimit(RLIMIT_AS, &limit);
    TakeMemory();
  }
}

}  // namespace

int main(int, char** argv) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  for (int step = 0; step < 100; ++step) run.Log({{"loss", step}}, step);
  // Attached: else the daemon first hears of the rank when its ring is found.
  if (run.Flush(std::chrono::minutes(1)) != ranklog::FlushResult::kDurable) return 1;
  for (int step = 100; step < 200; ++step) run.Log({{"loss", step}}, step);
  End(argv[1]);
  return 0;
}
