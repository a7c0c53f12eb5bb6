#ifndef CLIENT_BASE_OWN_GRPC_H_
#define CLIENT_BASE_OWN_GRPC_H_

namespace ranklog::internal {

// Keeps gRPC from writing its errors to stderr, since we report the relevant ones ourselves. Null
// unless the library has a gRPC of its own (RANKLOG_PORTABLE).
void SilenceOwnGrpc() __attribute__((weak, visibility("hidden")));

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_OWN_GRPC_H_
