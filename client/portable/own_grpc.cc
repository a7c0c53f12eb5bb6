// For a library that contains a gRPC of its own. This is a file of its own, so that all other
// objects are the same in a build without it.

#include "client/base/own_grpc.h"

#include <grpc/support/log.h>

namespace ranklog::internal {

void SilenceOwnGrpc() {
  gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace ranklog::internal
