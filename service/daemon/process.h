// What ranklogd changes of the process that it was given: signals, limits, placement.

#ifndef SERVICE_DAEMON_PROCESS_H_
#define SERVICE_DAEMON_PROCESS_H_

#include <signal.h>

#include "absl/status/status.h"

namespace ranklog::daemon {

// Blocks the signals that end the daemon in all threads, and returns them: main() waits for them.
// Resets those that the starter may have blocked or ignored. Call before any thread is started.
sigset_t TakeSignals();

// Raises the soft limits to the hard ones. Those of the starter are for other work: a training's
// shell may limit the size of files, the memory or the CPU time. Each rank costs three descriptors:
// its connection, its pidfd, its ring.
void RaiseLimits();

// Whether enough descriptors are free for the daemon and its first ranks. gRPC aborts the process
// where it gets none.
//   kResourceExhausted  they are not; the message says what to raise
absl::Status CheckDescriptors();

// Warns if the size of files is limited: later, a store that cannot grow looks like a full disk.
void SayFileLimit();

// Undoes what binds a rank to its place: CPU mask, scheduling policy, nice value, memory policy and
// working directory. Else the daemon would run on the rank's core, and keep its directory busy.
// Whatever the kernel does not allow stays as it is, for example a lower nice value.
void LeavePlacement();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_PROCESS_H_
