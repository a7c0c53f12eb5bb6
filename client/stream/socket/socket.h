// Connects to a daemon's socket, without gRPC.

#ifndef CLIENT_STREAM_SOCKET_SOCKET_H_
#define CLIENT_STREAM_SOCKET_SOCKET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/settings/socket_address.h"

namespace ranklog::internal {

// Returns a connected, non-blocking socket of the first place that answers, and sets `*answered` to
// its index. Never blocks.
//   kNotFound        nothing listens at any place; a daemon may be started
//   kUnavailable     something is there, but did not take the connection
absl::StatusOr<int> Connect(const std::vector<SocketLocation>& places, size_t* answered);

// Passes a spool's descriptor to the daemon on a connection of its own, and returns that connection.
// The first bytes are kDescriptorMagic and the incarnation; the descriptor is sent with them. Then
// come the size of `message`, 4 bytes, and `message`.
absl::StatusOr<int> PassDescriptor(const SocketLocation& place, uint64_t incarnation, int spool_fd,
                                   const std::string& message = "");

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_SOCKET_SOCKET_H_
