// Per-process state of the library. A forked child has its own.

#ifndef CLIENT_BASE_PROCESS_H_
#define CLIENT_BASE_PROCESS_H_

#include <cstdint>

#include "client/base/mutex.h"

namespace ranklog::internal {

// Guards the state that the runs of this process share off the hot path. Held for a short time,
// never over I/O. A forked child gets it unlocked, with consistent state behind it.
Mutex* StateMutex();

// The number of forks between this process and the first one. State with another number belongs to
// an ancestor, and must not be touched.
uint64_t Generation();

// Called by the fork handler in the child, while it has one thread. Increments the generation, and
// recreates StateMutex(), because threads that waited for it exist only in the parent.
void BeginForkedChild();

// Whether this process may use gRPC. False in a child of a process in which other code used gRPC at
// the fork. For the sender's thread.
bool MayUseGrpc();

// Keeps gRPC from writing its errors to stderr, since we report the relevant ones ourselves. Null
// unless the library has a gRPC of its own (RANKLOG_PORTABLE).
void SilenceOwnGrpc() __attribute__((weak, visibility("hidden")));

// Call this before a connection is made. Silences gRPC if it is the library's own.
void WillUseGrpc();

// Waits until gRPC is down, if it was down before we used it: a closed channel ends only when
// gRPC's own threads release it. Waits once, for at most half a second. If gRPC is still up after
// that, other code uses it.
void AwaitGrpcEnd();

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_PROCESS_H_
