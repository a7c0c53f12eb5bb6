#include "trainer/base/malloc_settings.h"

#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ranklog::trainer {

void KeepFreedMemory() {
#ifdef __GLIBC__
  for (const char* const name :
       {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (getenv(name) != nullptr) return;
  }
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that glibc takes (mallopt(3))
  mallopt(M_TRIM_THRESHOLD, 1 << 30);   // more than a step's tensors below that size
#endif
}

}  // namespace ranklog::trainer
