// The process that Run::CaptureConsole() starts: it reads what the rank prints, and outlives it.

#include "service/cli/console/reader_main.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "service/cli/console/command.h"
#include "service/cli/console/source.h"

namespace ranklog::cli {

// Descriptor 0 is the rank's end of a socket: it sends a byte when its run finishes, and expects one
// when everything was written. The first byte from here says that this process is ready. 1 and 2 are the rank's output before, 3 and above what it prints now.
int ConsoleReaderMain(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string handle = argv[2];
  const absl::string_view streams = argv[3];  // of 3 and above: "1", "2", "12"
  // They are meant for the rank: a batch system sends them to all processes of a job.
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    constexpr int kOfErrors[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS,
                                 SIGFPE, SIGSEGV, SIGSYS,  SIGCHLD};
    if (std::count(std::begin(kOfErrors), std::end(kOfErrors), signal) == 0)
      ::signal(signal, SIG_IGN);
  }
  std::vector<Source> sources;
  for (const char stream : streams) {
    const int from = 3 + static_cast<int>(sources.size());
    fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
    sources.push_back({UniqueFd(from), stream == '2' ? STDERR_FILENO : STDOUT_FILENO});
  }
  RunLog log;
  log.Attach(handle);
  const char ready = 'r';
  if (write(STDIN_FILENO, &ready, 1) != 1) return 1;
  std::vector<pollfd> control = {{STDIN_FILENO, POLLIN, 0}};
  while (log.attached() || AnyOpen(sources)) {
    CopyUntil(&sources, &log, &control, RunLog::kFlushInterval);
    log.FlushIfDue(absl::Now());
    const bool broken = std::any_of(sources.begin(), sources.end(),
                                    [](const Source& source) { return source.broken; });
    if (broken) {  // the rank takes its output back, and gets the signal for that
      log.Finish(absl::Now());
      return 0;
    }
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
