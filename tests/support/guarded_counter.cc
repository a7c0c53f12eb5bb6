// Two threads count, under an absl::Mutex if the argument is "guarded". The ThreadSanitizer build
// runs both modes: TSan must understand the lock, and must still report the race without it. TSan
// must also understand the reference count of a status that two threads share, and that gRPC closes
// descriptors.

#include <dirent.h>
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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

// One thread makes a socket, gRPC closes it, and the other thread opens a directory under the same
// number. Returns false if the directory got another number.
bool ReuseADescriptor() {
  std::atomic<int> closed = -1;
  bool reused = false;
  std::thread other([&closed, &reused] {
    while (closed.load(std::memory_order_relaxed) < 0) {
    }
    DIR* const dir = opendir("/");
    reused = dir != nullptr && dirfd(dir) == closed.load(std::memory_order_relaxed);
    closedir(dir);
  });
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0) {
    grpc::CreateInsecureChannelFromFd("", fds[0]).reset();
    while (fcntl(fds[0], F_GETFD) >= 0) std::this_thread::yield();
  }
  closed.store(fds[0], std::memory_order_relaxed);
  other.join();
  return reused;
}

}  // namespace

int main(int argc, char** argv) {
  const bool guarded = argc > 1 && strcmp(argv[1], "guarded") == 0;
  ShareAStatus();
  if (!ReuseADescriptor()) {
    fputs("the directory did not get the number of the socket\n", stderr);
    return 1;
  }
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
