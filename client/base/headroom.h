// Checks whether this process has the resources that gRPC needs. gRPC ends the process if it gets
// no descriptor or no memory. So the sender checks before each use of gRPC, and waits if there is
// too little.
//
// The checks only read limits and usage. They reserve nothing, because the trainer may need it. The
// exception is address space for gRPC's threads: see ReserveArenas().

#ifndef CLIENT_BASE_HEADROOM_H_
#define CLIENT_BASE_HEADROOM_H_

#include <cstddef>

#include "absl/status/status.h"

namespace ranklog::internal {

// OK: there are descriptors for a connection, and memory for gRPC's threads.
//   kResourceExhausted   the message names the resource, and the limit to raise
absl::Status HasRoomToConnect();

// Call this right before gRPC starts its threads. glibc's malloc() reserves an arena (64 MiB of
// address space) for a thread at its first allocation, and fails if the process may have no more. A
// thread of gRPC makes its first allocation seconds after the connection, when the trainer may have
// used up its limit. This function creates the arenas now and leaves them to the next threads that
// allocate. Does nothing if memory has no limit.
//   kResourceExhausted   a thread could not start or allocate, so gRPC must not start any
absl::Status ReserveArenas();

// OK: messages with `bytes` of rows can be sent and answered. Costs a system call if the address
// space is unlimited, else a read of /proc.
//   kResourceExhausted   as above
absl::Status HasRoomToSend(size_t bytes);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_HEADROOM_H_
