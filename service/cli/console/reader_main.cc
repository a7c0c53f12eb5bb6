// The process that Run::CaptureConsole() starts: it reads what the rank prints, and outlives it.

#include "service/cli/console/reader_main.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "service/cli/console/command.h"
#include "service/cli/console/source.h"

namespace ranklog::cli {

// Descriptor 0 is the rank's end of a socket: it sends a byte when its run finishes, and expects one
// when everything was written. 1 and 2 are the rank's output before, 3 and above what it prints now.
int ConsoleReaderMain(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string handle = argv[2];
  const absl::string_view streams = argv[3];  // of 3 and above: "1", "2", "12"
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    ::signal(signal, SIG_IGN);  // they are meant for the rank
  }
  std::vector<Source> sources;
  for (const char stream : streams) {
    const int from = 3 + static_cast<int>(sources.size());
    fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
    sources.push_back({UniqueFd(from), stream == '2' ? STDERR_FILENO : STDOUT_FILENO});
  }
  RunLog log;
  log.Attach(handle);
  std::vector<pollfd> control = {{STDIN_FILENO, POLLIN, 0}};
  while (log.attached() || AnyOpen(sources)) {
    CopyUntil(&sources, &log, &control, RunLog::kFlushInterval);
    log.FlushIfDue(absl::Now());
    CopyWindowSize(sources);  // nothing tells this session that it has changed
    if (control[0].fd < 0 || control[0].revents == 0) continue;
    char byte = 0;
    const bool lives = read(STDIN_FILENO, &byte, 1) == 1;
    Drain(&sources, &log);
    log.Finish(absl::Now());
    if (lives && write(STDIN_FILENO, &byte, 1) == 1) continue;
    control[0].fd = -1;  // the rank is dead; processes that it started may still print
  }
  return 0;
}

}  // namespace ranklog::cli
