#include "service/daemon/process/watchdog.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "service/base/environment.h"
#include "service/daemon/process/systemd_notify.h"

namespace ranklog::daemon {

Watchdog Watchdog::FromEnvironment() {
  std::string socket = EnvironmentVariable("NOTIFY_SOCKET");
  const std::string pid = EnvironmentVariable("WATCHDOG_PID");
  int64_t us = 0;
  int64_t whose = getpid();  // without WATCHDOG_PID, the process that reads the variables
  const bool ours = !socket.empty() &&
                    absl::SimpleAtoi(EnvironmentVariable("WATCHDOG_USEC"), &us) && us > 0 &&
                    (pid.empty() || absl::SimpleAtoi(pid, &whose)) && whose == getpid();
  return Watchdog(std::move(socket), ours ? absl::Microseconds(us) : absl::InfiniteDuration());
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
