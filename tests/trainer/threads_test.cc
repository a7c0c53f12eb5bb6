#include "trainer/base/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace ranklog::trainer {
namespace {

// The threads of OpenBLAS, which only Debian's LibTorch has; else `otherwise`.
int BlasThreads(int otherwise) {
  void* const get_threads = dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
  return get_threads == nullptr ? otherwise : reinterpret_cast<int (*)()>(get_threads)();
}

void SetThreads(int threads) {
  at::set_num_threads(threads);
  void* const set_threads = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (set_threads != nullptr) reinterpret_cast<void (*)(int)>(set_threads)(threads);
}

TEST(LimitThreadsTest, OneThreadUnlessUserChoseMore) {
  setenv("OMP_NUM_THREADS", "2", 1);
  SetThreads(2);
  LimitThreads();
  EXPECT_EQ(at::get_num_threads(), 2);
  EXPECT_EQ(BlasThreads(2), 2);
  for (const char* no_number : {"", "bogus", "0"}) {
    setenv("OMP_NUM_THREADS", no_number, 1);
    SetThreads(2);
    LimitThreads();
    EXPECT_EQ(at::get_num_threads(), 1) << no_number;
    EXPECT_EQ(BlasThreads(1), 1) << no_number;
  }
  unsetenv("OMP_NUM_THREADS");
  SetThreads(2);
  LimitThreads();
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_EQ(BlasThreads(1), 1);
}

}  // namespace
}  // namespace ranklog::trainer
