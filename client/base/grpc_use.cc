#include "client/base/grpc_use.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "client/base/grpc_poller.h"
#include "client/base/marked_threads.h"

namespace ranklog::internal {
namespace {

constexpr int kMostUnsure = 20;  // in a row: the program may start and end threads all the time
// While other code keeps gRPC up, each fork waits in vain.
constexpr std::chrono::milliseconds kSharedPatience{20};

enum class GrpcUse { kNone, kOurs, kShared };
std::atomic<GrpcUse> grpc_use = GrpcUse::kNone;
std::atomic<bool> threads_may_run = false;  // of gRPC, for us
// For a thread that has paused the sender, the sender's thread, or a child that has one thread.
bool down_at_fork = true;
bool may_use_grpc = true;
bool is_new_child = false;  // it may have closed gRPC's descriptors
std::optional<GrpcPoller> poller;
std::atomic<bool> may_have_poller = true;  // look for it at the next fork

// False: gRPC is not down after `patience`, or that cannot be known.
bool AwaitGrpcEnd(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  int unsure = 0;  // in a row
  while (true) {
    const bool up = grpc_is_initialized() != 0;
    const MarkedThreads threads =
        up || !threads_may_run ? MarkedThreads::kNone : FindMarkedThreads();
    if (threads == MarkedThreads::kUnknown) return false;
    unsure = threads == MarkedThreads::kUnsure ? unsure + 1 : 0;
    const bool none = threads == MarkedThreads::kNone || unsure == kMostUnsure;
    if (!up && none) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      if (up) grpc_use = GrpcUse::kShared;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // gRPC does not tell its end
  }
  threads_may_run = false;
  return true;
}

// Whether gRPC is down.
bool IsDown(std::chrono::milliseconds patience) {
  switch (grpc_use.load()) {
    case GrpcUse::kNone:
      return grpc_is_initialized() == 0;
    case GrpcUse::kOurs:
      return AwaitGrpcEnd(patience);
    case GrpcUse::kShared:
      if (!AwaitGrpcEnd(std::min(patience, kSharedPatience))) return false;
      grpc_use = GrpcUse::kOurs;
      return true;
  }
  return false;
}

}  // namespace

void WillUseGrpc() {
  if (SilenceOwnGrpc != nullptr) SilenceOwnGrpc();
  if (grpc_is_initialized() == 0) {
    grpc_use = GrpcUse::kOurs;
  } else if (grpc_use.load() == GrpcUse::kNone) {
    grpc_use = GrpcUse::kShared;
  }
  threads_may_run = true;
  may_have_poller = true;
}

void PrepareGrpcForFork(bool closed, std::chrono::milliseconds patience) {
  down_at_fork = may_use_grpc && closed && IsDown(patience);
  if (!down_at_fork) return;
  if (poller) {
    down_at_fork = IsOpen(*poller);
  } else if (may_have_poller) {
    poller = FindGrpcPoller();
    const bool used = grpc_use.load() != GrpcUse::kNone;
    if (used && !poller && GrpcLeavesPoller()) down_at_fork = false;
    may_have_poller = !used || !down_at_fork;
  }
}

void BeginGrpcInChild() {
  may_use_grpc = down_at_fork && (!poller || ReplaceGrpcPoller(*poller));
  is_new_child = true;
}

bool MayUseGrpc() {
  if (is_new_child && may_use_grpc && poller) may_use_grpc = IsOpen(*poller);
  is_new_child = false;
  return may_use_grpc;
}

}  // namespace ranklog::internal
