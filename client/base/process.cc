#include "client/base/process.h"

#include <grpc/grpc.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

namespace ranklog::internal {
namespace {

constexpr std::chrono::milliseconds kGrpcEnd{500};

enum class GrpcUse { kNone, kOurs, kShared };
std::atomic<GrpcUse> grpc_use = GrpcUse::kNone;

uint64_t generation = 0;  // changes only in a forked child, while it has one thread

}  // namespace

Mutex* StateMutex() {
  // Never destroyed: threads may log while the process exits.
  static Mutex* const mutex = new Mutex;
  return mutex;
}

uint64_t Generation() { return generation; }

void BeginForkedChild() {
  new (StateMutex()) Mutex;
  ++generation;
}

bool MayUseGrpc() {
  // If gRPC is up in a child before we use it, other code used it at the fork. Then it is broken.
  static uint64_t checked = 0;
  static bool clean = true;
  if (checked != generation) {
    checked = generation;
    clean = grpc_is_initialized() == 0;
  }
  return clean;
}

void WillUseGrpc() {
  if (SilenceOwnGrpc != nullptr) SilenceOwnGrpc();
  GrpcUse expected = GrpcUse::kNone;
  const GrpcUse use = grpc_is_initialized() == 0 ? GrpcUse::kOurs : GrpcUse::kShared;
  grpc_use.compare_exchange_strong(expected, use);
}

void AwaitGrpcEnd() {
  if (grpc_use.load() != GrpcUse::kOurs) return;
  const auto deadline = std::chrono::steady_clock::now() + kGrpcEnd;
  while (grpc_is_initialized() != 0) {
    if (std::chrono::steady_clock::now() >= deadline) return grpc_use.store(GrpcUse::kShared);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace ranklog::internal
