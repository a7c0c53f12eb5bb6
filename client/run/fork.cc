#include "client/run/fork.h"

#include <pthread.h>
#include <signal.h>

#include "client/base/process.h"
#include "client/run/console_capture.h"
#include "client/run/thread_rings.h"
#include "client/stream/socket/open_sockets.h"

namespace ranklog::internal {
namespace {

sigset_t signals_before_fork;  // set between the handlers of one fork; under StateMutex()

// A child must find the state behind StateMutex() consistent. Everything else that the threads of
// this process use, such as gRPC, the child does not touch.
void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  // Like MutexLock, but the lock stays held until the fork is done.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  StateMutex()->Lock();
  signals_before_fork = before;
}

void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const sigset_t before = signals_before_fork;
  StateMutex()->Unlock();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void AfterForkInChild() {
  BeginForkedChild();
  CloseInheritedSockets();
  ConsoleCapture::CloseInChild();
  ForgetThreadRings();
  pthread_sigmask(SIG_SETMASK, &signals_before_fork, nullptr);
}

}  // namespace

void ArmForkHandlers() {
  static const int armed = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(armed);
}

}  // namespace ranklog::internal
