// systemd's watchdog: it restarts a service that sends no WATCHDOG=1 for some time.

#ifndef SERVICE_DAEMON_WATCHDOG_H_
#define SERVICE_DAEMON_WATCHDOG_H_

#include <string>

#include "absl/time/time.h"

namespace ranklog::daemon {

// Sends the pings, and withholds them while a loop hangs.
class Watchdog {
 public:
  // `systemd`: as NotifySystemd() takes it. `limit`: a service without a ping for so long is
  // restarted; infinite: nobody looks.
  Watchdog(std::string systemd, absl::Duration limit)
      : systemd_(std::move(systemd)), limit_(limit) {}
  // By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Not thread-safe, as getenv is not.
  static Watchdog FromEnvironment();

  // A loop that has been silent (base/pulse.h) for so long hangs.
  absl::Duration limit() const { return limit_; }
  // How often Look() is to be called at least.
  absl::Duration interval() const { return limit_ / 4; }

  // `hanging`: the loop that hangs; empty: all turn, so a ping is sent if one is due.
  void Look(absl::Time steady_now, const std::string& hanging);

 private:
  std::string systemd_;
  absl::Duration limit_;
  absl::Time next_ = absl::InfinitePast();
  std::string said_;  // which hangs, to the log
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_WATCHDOG_H_
