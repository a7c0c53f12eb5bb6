// fake-wandb: FakeWandb as a program, for tests with several processes.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/fake_wandb.h"

namespace {

constexpr char kUsage[] = R"(fake-wandb [--address ADDRESS] [--fail-every N] [PORT [FEATURE...]]

Stands in for a W&B server at a port of 127.0.0.1, or of ADDRESS; a free one unless PORT is given. Prints its URL, and
serves until it is killed. GET /dump returns its runs as JSON. The FEATUREs are those that it says it has. With
--fail-every, every N-th request fails: 500, 503, or a cut connection.

Examples:
  fake-wandb
  fake-wandb 8080
  fake-wandb --address 192.168.0.5 8080
)";

// Returns -1 if `text` is not a port.
int PortOf(const char* text) {
  char* end = nullptr;
  const long port = std::strtol(text, &end, 10);
  return *text != 0 && *end == 0 && port >= 0 && port <= 65535 ? static_cast<int>(port) : -1;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0) {
      std::fputs(kUsage, stdout);
      return 0;
    }
  }
  const char* address = "127.0.0.1";
  int fail_every = 0;
  for (; argc > 2 && argv[1][0] == '-'; argc -= 2, argv += 2) {
    if (std::strcmp(argv[1], "--address") == 0) {
      address = argv[2];
    } else if (std::strcmp(argv[1], "--fail-every") == 0) {
      fail_every = std::atoi(argv[2]);
    } else {
      break;
    }
  }
  const int port = argc > 1 ? PortOf(argv[1]) : 0;
  if (port < 0) {
    std::fprintf(stderr, "fake-wandb: '%s' is not a port; `fake-wandb --help` says more\n",
                 argv[1]);
    return 2;
  }
  ranklog::testing::FakeWandb server(port, address);
  if (server.port() <= 0) {
    std::fprintf(stderr, "fake-wandb: cannot listen on %s, port %d\n", address, port);
    return 1;
  }
  for (int i = 2; i < argc; ++i) server.Enable(argv[i]);
  if (fail_every > 0) server.FailEvery(fail_every);
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  while (true) pause();
}
