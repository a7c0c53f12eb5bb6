// The epoll set that gRPC polls. gRPC 1.51 makes it once in a process, and never closes it (see
// shutdown_engine in ev_epoll1_linux.cc). So a forked child inherits it, even if gRPC was shut down.
// If both processes used gRPC, each would take events from the other, with pointers into the other's
// memory. A newer version may leave none behind.
//
// Nothing here throws, because fork handlers call it.

#ifndef CLIENT_BASE_GRPC_POLLER_H_
#define CLIENT_BASE_GRPC_POLLER_H_

#include <cstdint>
#include <optional>

namespace ranklog::internal {

struct GrpcPoller {
  int epoll_fd;
  int wakeup_fd;  // an eventfd, the only descriptor in the set after a shutdown
  uint32_t events;
  uint64_t data;  // of the wakeup_fd in the set: an address in gRPC's library
};

// Whether gRPC, once it was used, has left an epoll set that FindGrpcPoller() must find. With
// GRPC_POLL_STRATEGY=poll it makes none.
bool GrpcLeavesPoller();

// Finds it in /proc. Call this while gRPC is down. nullopt: there is none, or it cannot be read.
std::optional<GrpcPoller> FindGrpcPoller();

// Whether the set is still open, with its wakeup. The program may have closed all descriptors, and
// opened others.
bool IsOpen(const GrpcPoller& poller);

// In a forked child with one thread: puts a new epoll set and a new eventfd in the place of the
// parent's. False: it cannot, so gRPC must not be used.
bool ReplaceGrpcPoller(const GrpcPoller& poller);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_GRPC_POLLER_H_
