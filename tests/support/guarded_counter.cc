// Two threads count, under an absl::Mutex if the argument is "guarded". The ThreadSanitizer build
// runs both modes: TSan must understand the lock, and must still report the race without it. TSan
// must also understand the reference count of a status that two threads share.

#include <stdio.h>
#include <string.h>

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace {

int count = 0;
absl::Mutex mutex;

void Count(bool guarded) {
  for (int i = 0; i < 1000; ++i) {
    if (guarded) mutex.Lock();
    ++count;
    if (guarded) mutex.Unlock();
  }
}

// The counting thread evaluates the condition when it unlocks.
void WaitForAll() {
  auto all = [] { return count == 2000; };
  absl::MutexLock lock(&mutex, absl::Condition(&all));
  ++count;
}

// Only the reference count of the status orders the accesses of the threads.
void ShareAStatus() {
  absl::Status status = absl::InternalError("shared");
  std::atomic<bool> gone = false;
  std::thread other([&gone, own = status]() mutable {
    own = absl::Status(own);
    own = absl::OkStatus();
    gone.store(true, std::memory_order_relaxed);
  });
  while (!gone.load(std::memory_order_relaxed)) {
  }
  status = absl::OkStatus();
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  const bool guarded = argc > 1 && strcmp(argv[1], "guarded") == 0;
  ShareAStatus();
  std::thread waiting;
  if (guarded) waiting = std::thread(WaitForAll);
  std::thread first(Count, guarded);
  std::thread second(Count, guarded);
  first.join();
  second.join();
  if (waiting.joinable()) waiting.join();
  printf("%d\n", count);
  return 0;
}
