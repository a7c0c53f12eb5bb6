// Shows ThreadSanitizer when gRPC ends a reactor. As tsan_abseil.cc, for libgrpc++.so.
//
// A reactor ends with the last of its callbacks, which a count tells: dropped by inlined code,
// which TSan sees, and by libgrpc++.so, which it does not.

#include <dlfcn.h>
#include <grpcpp/support/server_callback.h>
#include <sanitizer/tsan_interface.h>
#include <stdlib.h>

namespace grpc {
namespace internal {

void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  using Function = void (*)(ServerCallbackCall*, bool);
  static const auto original = reinterpret_cast<Function>(
      dlsym(RTLD_NEXT, "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb"));
  if (original == nullptr) abort();
  __tsan_acquire(&callbacks_outstanding_);
  original(this, inline_ondone);
}

}  // namespace internal
}  // namespace grpc
