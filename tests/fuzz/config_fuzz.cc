// Parses the daemon's configuration file. Input: the file.

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "service/daemon/config/config.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  static const int file = memfd_create("config", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  MUST(ftruncate(file, 0) == 0);
  MUST(pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const char* const arguments[] = {"ranklogd", "--config", path.c_str()};
  const daemon::Parsed parsed = daemon::ParseConfig(3, arguments);
  if (!parsed.run) {
    MUST(!parsed.text.empty() && (parsed.exit_code == 0 || parsed.exit_code == 2));
    return 0;
  }
  const daemon::Config& config = parsed.config;
  MUST(!config.state_dirs.empty() && !config.socket_path.empty() && !config.spool_dirs.empty());
  MUST(config.drain >= absl::ZeroDuration() && config.drain < absl::InfiniteDuration());
  MUST(config.commit_interval >= absl::Milliseconds(1));
  MUST(config.step_wait >= absl::ZeroDuration());
  MUST(config.transmit_interval >= absl::Milliseconds(1));
  MUST(config.log_level == "debug" || config.log_level == "info" || config.log_level == "warn" ||
       config.log_level == "error");
  return 0;
}
