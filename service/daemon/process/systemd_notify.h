// Reports the state of the service to systemd, by the datagrams of sd_notify(3).

#ifndef SERVICE_DAEMON_PROCESS_SYSTEMD_NOTIFY_H_
#define SERVICE_DAEMON_PROCESS_SYSTEMD_NOTIFY_H_

#include <string>

namespace ranklog::daemon {

// Sends a state such as "READY=1" to the socket `address` ($NOTIFY_SOCKET: a path, or "@" and an
// abstract name). Does nothing if `address` is empty. Ignores errors, because no caller could
// handle them.
void NotifySystemd(const std::string& address, const std::string& state);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_PROCESS_SYSTEMD_NOTIFY_H_
