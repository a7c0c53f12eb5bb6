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

// CLOCK_BOOTTIME in microseconds: the same for all processes of the node, and never set.
uint64_t MicrosSinceBoot();

// The file size limit. The kernel ends a process that makes a larger file, also in memory (SIGXFSZ).
uint64_t MostFileBytes();

// Called by the fork handler in the child, while it has one thread. Increments the generation, and
// recreates StateMutex(), because threads that waited for it exist only in the parent.
void BeginForkedChild();

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_PROCESS_H_
