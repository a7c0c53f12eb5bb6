// In libraries that contain a gRPC of their own. A file of its own, so that all other objects are the
// same in a build without it.

#include "client/base/process.h"

namespace ranklog::internal {

const bool kHasOwnGrpc = true;

}  // namespace ranklog::internal
