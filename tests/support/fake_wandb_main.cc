// fake-wandb: FakeWandb as a program, for tests with several processes. Prints its URL, and serves
// until it is killed. GET /dump returns its runs as JSON.
//
//   fake-wandb [PORT [FEATURE...]]

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/fake_wandb.h"

int main(int argc, char** argv) {
  ranklog::testing::FakeWandb server(argc > 1 ? std::atoi(argv[1]) : 0);
  if (server.port() <= 0) {
    std::fprintf(stderr, "fake-wandb: the port is taken\n");
    return 1;
  }
  for (int i = 2; i < argc; ++i) server.Enable(argv[i]);
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  while (true) pause();
}
