// systemd's watchdog restarts a service that sends no WATCHDOG=1 for some time.

#ifndef SERVICE_DAEMON_PROCESS_WATCHDOG_H_
#define SERVICE_DAEMON_PROCESS_WATCHDOG_H_

#include <string>

#include "absl/time/time.h"

namespace ranklog::daemon {

// Sends the pings, but not while a loop hangs.
class Watchdog {
 public:
  // `systemd` is the address for NotifySystemd(). systemd restarts a service that sends no ping for
  // `limit`; infinite: no watchdog.
  Watchdog(std::string systemd, absl::Duration limit)
      : systemd_(std::move(systemd)), limit_(limit) {}
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Not thread-safe, because getenv is not.
  static Watchdog FromEnvironment();

  // A loop that has been silent (base/pulse.h) for this long hangs.
  absl::Duration limit() const { return limit_; }
  // Call Check() at least this often.
  absl::Duration interval() const { return limit_ / 4; }

  // `hanging` names the hanging loop. If it is empty, no loop hangs, and a ping is sent if one is
  // due.
  void Check(absl::Time steady_now, const std::string& hanging);

 private:
  std::string systemd_;
  absl::Duration limit_;
  absl::Time next_ = absl::InfinitePast();
  std::string logged_loop_;  // hanging loop that was logged last
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_PROCESS_WATCHDOG_H_
