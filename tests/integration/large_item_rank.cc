// A rank that sets a config value of the given number of bytes once the daemon knows it and the
// file of the third argument exists. Prints "taken" or "refused", and then, by the second argument,
// finishes or kills itself.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <string>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  run.Config({{"order", 1}});
  run.Log({{"loss", 0.5}}, 0);
  if (run.Flush(std::chrono::seconds(30)) != ranklog::FlushResult::kDurable) return 4;
  std::cout << "ready" << std::endl;
  while (access(argv[3], F_OK) != 0) usleep(1000);
  const bool taken = run.Config({{"large", std::string(std::stoul(argv[1]), 'x')}, {"order", 2}});
  std::cout << (taken ? "taken" : "refused") << std::endl;
  if (std::string(argv[2]) == "die") raise(SIGKILL);
  run.Config({{"order", 3}});
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3;
}
