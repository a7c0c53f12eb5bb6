#ifndef SERVICE_DAEMON_SERVE_H_
#define SERVICE_DAEMON_SERVE_H_

#include <signal.h>

#include "service/daemon/config/config.h"

namespace ranklog::daemon {

// Starts the daemon, in the background if `config` says so, and serves until one of the blocked
// signals `ending` arrives, or until another reason to end. Logs it, tells systemd, and returns the
// exit code of the process. One call per process.
int Serve(const Config& config, const sigset_t& ending);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_SERVE_H_
