#include "service/daemon/process/watchdog.h"

#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "service/daemon/process/systemd_notify.h"

namespace ranklog::daemon {

Watchdog Watchdog::FromEnvironment() {
  const char* const socket = getenv("NOTIFY_SOCKET");
  const char* const time = getenv("WATCHDOG_USEC");
  const char* const pid = getenv("WATCHDOG_PID");
  int64_t us = 0;
  int64_t whose = getpid();  // without WATCHDOG_PID, the process that reads the variables
  const bool ours = socket != nullptr && time != nullptr && absl::SimpleAtoi(time, &us) && us > 0 &&
                    (pid == nullptr || absl::SimpleAtoi(pid, &whose)) && whose == getpid();
  return Watchdog(socket == nullptr ? "" : socket,
                  ours ? absl::Microseconds(us) : absl::InfiniteDuration());
}

void Watchdog::Check(absl::Time steady_now, const std::string& hanging) {
  if (limit_ == absl::InfiniteDuration()) return;
  if (const std::string before = std::exchange(logged_loop_, hanging); before != hanging) {
    if (hanging.empty()) {
      spdlog::warn("the {} loop runs again", before);
    } else {
      spdlog::error("the {} loop has been hanging for {}; systemd will restart the daemon", hanging,
                    absl::FormatDuration(limit_));
    }
  }
  if (!hanging.empty() || steady_now < next_) return;
  NotifySystemd(systemd_, "WATCHDOG=1");
  next_ = steady_now + interval();
}

}  // namespace ranklog::daemon
