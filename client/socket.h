// Reaching a daemon's socket, without gRPC.

#ifndef CLIENT_SOCKET_H_
#define CLIENT_SOCKET_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/socket_address.h"

namespace ranklog::internal {

// A connected, non-blocking socket of the first place that answers; `*answered` becomes its index.
// Never blocks.
//   kNotFound        nothing listens at any of them: a daemon may be started
//   kUnavailable     something is there, but it did not take the connection
absl::StatusOr<int> Connect(const std::vector<SocketPlace>& places, size_t* answered);

// Hands a spool's descriptor to the daemon on a short connection of its own: the first bytes are
// kDescriptorMagic and the incarnation, the descriptor goes with them.
absl::Status PassDescriptor(const SocketPlace& place, uint64_t incarnation, int spool_fd);

}  // namespace ranklog::internal

#endif  // CLIENT_SOCKET_H_
