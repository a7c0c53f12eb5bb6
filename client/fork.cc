#include "client/fork.h"

#include <pthread.h>
#include <signal.h>

#include "client/base/grpc_use.h"
#include "client/base/process.h"
#include "client/base/uncancelled.h"
#include "client/stream/sender.h"
#include "client/thread_rings.h"

namespace ranklog::internal {
namespace {

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
  BeginForkedChild();
  BeginGrpcInChild();
  ForgetThreadRings();
  pthread_sigmask(SIG_SETMASK, &signals_before_fork, nullptr);
}

}  // namespace

void ArmForkHandlers() {
  static const int armed = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(armed);
}

}  // namespace ranklog::internal
