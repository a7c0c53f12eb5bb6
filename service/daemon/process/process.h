// Changes that ranklogd makes to its process: signals, limits, placement.

#ifndef SERVICE_DAEMON_PROCESS_PROCESS_H_
#define SERVICE_DAEMON_PROCESS_PROCESS_H_

#include <signal.h>

#include "absl/status/status.h"

namespace ranklog::daemon {

// Blocks the signals that end the daemon in all threads, and returns them, so that main() can wait
// for them. Resets signals that the starter may have blocked or ignored. Call it before any thread
// is started.
sigset_t BlockEndSignals();

// Raises the soft limits to the hard limits. The starter's limits are meant for other work: the
// shell of a training may limit file size, memory or CPU time. Each rank needs three descriptors:
// its connection, its pidfd, its ring.
void RaiseLimits();

// Checks that enough descriptors are free for the daemon and its first ranks. gRPC aborts the
// process if it gets none.
//   kResourceExhausted  too few; the message says which limit to raise
absl::Status CheckDescriptors();

// Warns if the file size is limited, because a store that reaches the limit looks like a full disk.
void LogFileLimit();

// Resets the CPU mask, scheduling policy, nice value, memory policy and working directory that were
// inherited from a rank. Otherwise the daemon would run on the rank's core and keep its directory
// in use. Changes that the kernel does not permit, such as a lower nice value, are skipped.
void ResetPlacement();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_PROCESS_PROCESS_H_
