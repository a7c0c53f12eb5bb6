#include "client/base/headroom.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <latch>
#include <thread>
#include <vector>

#include "absl/base/config.h"

namespace ranklog::internal {
namespace {

[[noreturn]] void ConnectWithDescriptors(rlim_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = count;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(100);
  fprintf(stderr, "%s", HasRoomToConnect().ToString().c_str());
  _exit(0);
}

TEST(HeadroomTest, NamesShortLimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ConnectWithDescriptors(20), ::testing::ExitedWithCode(0),
              "too few file descriptors: only .* of 20 are free.*ulimit -n");
  EXPECT_EXIT(ConnectWithDescriptors(1000), ::testing::ExitedWithCode(0), "OK");
}

#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr int kThreads = 8;  // of gRPC, on a machine with up to 2 processors

void SetLimit(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(100);
}

rlim_t UsedBytes() {
  unsigned long long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%llu", &pages) != 1) _exit(101);
  fclose(file);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// Ends this process with the number of idle threads that got no memory when the limit was reached.
[[noreturn]] void AllocateAtLimit(bool reserved) {
  SetLimit(rlim_t{16} << 30);
  std::latch full(1);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      full.wait();
      void* volatile memory = malloc(100);
      if (memory == nullptr) ++failures;
      free(memory);
    });
  }
  if (reserved && !ReserveArenas().ok()) _exit(102);
  SetLimit(UsedBytes());
  full.count_down();
  for (std::thread& thread : threads) thread.join();
  _exit(failures);
}

TEST(HeadroomTest, IdleThreadsAllocateAtTheLimitOfMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(AllocateAtLimit(/*reserved=*/true), ::testing::ExitedWithCode(0), "");
  // Otherwise this test could not fail.
  const auto some_failed = [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) > 0; };
  EXPECT_EXIT(AllocateAtLimit(/*reserved=*/false), some_failed, "");
}
#endif

}  // namespace
}  // namespace ranklog::internal
