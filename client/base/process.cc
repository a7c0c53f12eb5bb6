#include "client/base/process.h"

#include <new>

namespace ranklog::internal {
namespace {

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

}  // namespace ranklog::internal
