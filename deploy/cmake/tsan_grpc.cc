// Annotates the end of a gRPC reactor for ThreadSanitizer. Like tsan_abseil.cc, for libgrpc++.so.
//
// A reactor ends with its last callback. A counter detects that. Inlined code decrements it, which
// TSan sees, and so does libgrpc++.so, which TSan does not see.

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
