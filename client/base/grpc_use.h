// When this process may use gRPC. A forked child may not if a thread of gRPC existed at the fork:
// the child inherits the locks that this thread held, and nobody releases them.

#ifndef CLIENT_BASE_GRPC_USE_H_
#define CLIENT_BASE_GRPC_USE_H_

#include <chrono>

namespace ranklog::internal {

// Keeps gRPC from writing its errors to stderr, since we report the relevant ones ourselves. Null
// unless the library has a gRPC of its own (RANKLOG_PORTABLE).
void SilenceOwnGrpc() __attribute__((weak, visibility("hidden")));

// Call this before a connection is made, with a MarksNewThreads. Silences gRPC if it is the library's own.
void WillUseGrpc();

// Call this before a fork, on the thread that forks. `closed`: our connections are closed. Then it
// waits until gRPC is down and its threads have ended, for at most `patience`: a closed channel ends
// only when gRPC's own threads release it. If gRPC stays up, other code may use it, and the next calls
// wait 20 ms at most.
void PrepareGrpcForFork(bool closed,
                        std::chrono::milliseconds patience = std::chrono::milliseconds(1000));

// Called by the fork handler in the child, while it has one thread.
void BeginGrpcInChild();

// False in a child if gRPC was not down at the fork, if the child has closed gRPC's descriptors, or
// if its parent may not use gRPC. For the sender's thread.
bool MayUseGrpc();

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_GRPC_USE_H_
