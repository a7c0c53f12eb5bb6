#include "client/base/process.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "client/base/uncancelled.h"
#include "client/run_state.h"
#include "client/stream/sender.h"

namespace ranklog::internal {
namespace {

constexpr std::chrono::milliseconds kGrpcEnd{500};

enum class GrpcUse { kNone, kOurs, kShared };
std::atomic<GrpcUse> grpc_use = GrpcUse::kNone;

uint64_t generation = 0;  // changes only in a forked child, while it has one thread
// Set between the handlers of one fork; under StateMutex().
Sender* held_sender = nullptr;
sigset_t signals_before_fork;

// A child must not inherit a gRPC that is in use: its threads would be missing, its locks held, and
// its sockets shared with us. So the sender shuts gRPC down first, and connects again afterwards.
void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const Uncancelled uncancelled;  // this function waits
  // Like MutexLock, but the locks stay held until the fork is done.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Sender* const sender = Sender::Get();
  sender->HoldForFork();
  StateMutex()->Lock();
  held_sender = sender;
  signals_before_fork = before;
}

void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Sender* const sender = held_sender;
  const sigset_t before = signals_before_fork;
  StateMutex()->Unlock();
  sender->ReleaseAfterFork();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void AfterForkInChild() {
  // Threads that waited for the lock exist only in the parent.
  new (StateMutex()) Mutex;
  ++generation;
  ForgetThreadRings();
  pthread_sigmask(SIG_SETMASK, &signals_before_fork, nullptr);
}

}  // namespace

Mutex* StateMutex() {
  // Never destroyed: threads may log while the process exits.
  static Mutex* const mutex = new Mutex;
  return mutex;
}

uint64_t Generation() { return generation; }

void ArmForkHandlers() {
  static const int armed = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(armed);
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
#ifdef RANKLOG_OWN_GRPC
  // gRPC writes its errors to stderr. We report the relevant ones ourselves.
  gpr_set_log_function([](gpr_log_func_args*) {});
#endif
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
