// The main() of ranklogd: prepares the process, and serves. README.md in service/ describes the
// daemon.

#include <malloc.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "service/base/standard_descriptors.h"
#include "service/daemon/config/config.h"
#include "service/daemon/process/journal.h"
#include "service/daemon/process/log_format.h"
#include "service/daemon/process/process.h"
#include "service/daemon/serve.h"

namespace {

// Returns freed blocks above this size to the system. By default, malloc raises this limit when it
// frees the first such block, and keeps later ones. With 10^7 rows to deliver, the daemon took up
// to 100 MiB, and 63 MiB with this limit, at the same speed.
constexpr int kLargeBlock = 1 << 20;

}  // namespace

int main(int argc, char** argv) {
  ranklog::OpenStandardDescriptors();
  const ranklog::daemon::Parsed parsed = ranklog::daemon::ParseConfig(argc, argv);
  if (!parsed.run) {
    fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  const sigset_t ending = ranklog::daemon::BlockEndSignals();
  umask(077);  // a stricter mask inherited from a rank would block access to our own files
  ranklog::daemon::RaiseLimits();
  if (ranklog::daemon::StartedBy() == ranklog::daemon::kRank) ranklog::daemon::ResetPlacement();
  // Buffers of gRPC and curl hold copies of the trackers' keys, which MADV_DONTDUMP cannot cover.
  if (!parsed.config.core_dumps) prctl(PR_SET_DUMPABLE, 0);
  ranklog::daemon::LogTo(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (parsed.config.log_format == "json") {
    ranklog::daemon::LogAsJson();
  } else if (ranklog::daemon::GoesToJournal(STDERR_FILENO)) {
    ranklog::daemon::LogForJournal();
  }
  spdlog::set_level(spdlog::level::from_str(parsed.config.log_level));
  ranklog::daemon::LogFileLimit();
  return ranklog::daemon::Serve(parsed.config, ending);
}
