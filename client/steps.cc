#include "client/steps.h"

#include <sys/mman.h>

#include <new>

namespace ranklog::internal {

std::unique_ptr<SharedSteps> SharedSteps::Create() {
  void* page = mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedSteps>(new SharedSteps(new (page) std::atomic<int64_t>(0)));
}

SharedSteps::~SharedSteps() { munmap(open_, sizeof *open_); }

}  // namespace ranklog::internal
