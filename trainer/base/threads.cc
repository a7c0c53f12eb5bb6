#include "trainer/base/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <stdlib.h>

namespace ranklog::trainer {

bool IsThreadCount(const char* value) { return value != nullptr && strtol(value, nullptr, 10) > 0; }

void LimitThreads() {
  if (IsThreadCount(getenv("OMP_NUM_THREADS"))) return;
  at::set_num_threads(1);
  // OpenBLAS, the BLAS of Debian's LibTorch, has threads of its own.
  if (IsThreadCount(getenv("OPENBLAS_NUM_THREADS"))) return;
  void* const set_threads = dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (set_threads != nullptr) reinterpret_cast<void (*)(int)>(set_threads)(1);
}

}  // namespace ranklog::trainer
