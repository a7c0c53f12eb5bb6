// Tells systemd how the service is: the datagrams of sd_notify(3).

#ifndef SERVICE_DAEMON_NOTIFY_H_
#define SERVICE_DAEMON_NOTIFY_H_

#include <string>

namespace ranklog::daemon {

// Sends e.g. "READY=1" to the socket `address` ($NOTIFY_SOCKET: a path, or "@" and an abstract
// name). Does nothing if it is empty; nobody can help if the send fails.
void NotifySystemd(const std::string& address, const std::string& state);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_NOTIFY_H_
