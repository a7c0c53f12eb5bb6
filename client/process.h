// What the library keeps once per process, and what becomes of it at a fork.

#ifndef CLIENT_PROCESS_H_
#define CLIENT_PROCESS_H_

#include <cstdint>

#include "client/mutex.h"

namespace ranklog::internal {

// Guards what the runs of this process share off the hot path. Held for moments, never over I/O.
// A forked child gets it unlocked, with what it guards whole.
Mutex* StateMutex();

// Counts the forks that lie between this process and the first: what carries another number belongs
// to an ancestor, and must be left alone.
uint64_t Generation();

// From the first call on, forks are prepared for.
void ArmForkHandlers();

// Whether this process may use gRPC: not a child of a process in which others used it at the fork.
// For the sender's thread.
bool MayUseGrpc();

// To be said before a connection is made. Silences gRPC where it is the library's own
// (RANKLOG_PORTABLE).
void WillUseGrpc();

// Waits until gRPC is down, if it was down before we used it: a channel that we have left ends when
// gRPC's own threads let go of it. At most half a second, once; then somebody else uses it.
void AwaitGrpcEnd();

}  // namespace ranklog::internal

#endif  // CLIENT_PROCESS_H_
