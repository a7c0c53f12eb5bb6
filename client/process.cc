#include "client/process.h"

#include <pthread.h>

#include <new>

#include "client/run_state.h"

namespace ranklog::internal {
namespace {

uint64_t generation = 0;  // changes in a forked child only, where there is one thread

void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { StateMutex()->Lock(); }

void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS { StateMutex()->Unlock(); }

void AfterForkInChild() {
  // Threads that waited for it exist in the parent only.
  new (StateMutex()) Mutex;
  ++generation;
  ForgetThreadRings();
}

}  // namespace

Mutex* StateMutex() {
  // Never destroyed: threads may log while the process exits.
  static Mutex* const mutex = new Mutex;
  return mutex;
}

uint64_t Generation() {
  static const int armed = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(armed);
  return generation;
}

}  // namespace ranklog::internal
