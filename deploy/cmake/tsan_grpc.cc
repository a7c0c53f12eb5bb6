// Shows ThreadSanitizer what gRPC does that matters to this program: the end of a reactor, and the
// closing of a descriptor. Like tsan_abseil.cc, for libgrpc++.so and libgrpc.so.

#include <dlfcn.h>
#include <grpcpp/support/server_callback.h>
#include <sanitizer/tsan_interface.h>
#include <stdlib.h>

extern "C" {
// Of ThreadSanitizer's library.
int __interceptor_close(int fd);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
// Of the linker: where this program's code starts and ends.
extern const char __executable_start, etext;

// TSan ignores the calls of the suppressed libraries, so it misses that gRPC closes a descriptor.
// It also misses opendir(). So it takes a directory that gets the number for the socket that had it
// before, and reports a race. This function makes it forget the number, without the access that
// it notes for a close() by our own code.
int close(int fd) {
  const char* const caller = static_cast<const char*>(__builtin_return_address(0));
  const bool ours = caller >= &__executable_start && caller < &etext;
  if (!ours) __tsan_ignore_thread_begin();
  const int result = __interceptor_close(fd);
  if (!ours) __tsan_ignore_thread_end();
  return result;
}
}

namespace grpc {
namespace internal {

// A reactor ends with its last callback. A counter detects that. Inlined code decrements it, which
// TSan sees, and so does libgrpc++.so, which TSan does not see.
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
