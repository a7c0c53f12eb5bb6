#include "client/ring/steps.h"

#include <sys/mman.h>

#include <new>

namespace ranklog::internal {

std::unique_ptr<SharedSteps> SharedSteps::Create() {
  void* page = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedSteps>(new SharedSteps(new (page) Memory()));
}

SharedSteps::~SharedSteps() { munmap(memory_, sizeof *memory_); }

uint32_t SharedSteps::AddRing() {
  uint32_t word = memory_->next.load(std::memory_order_relaxed);
  while (word < kWords) {
    if (memory_->next.compare_exchange_weak(word, word + 1, std::memory_order_relaxed)) return word;
  }
  return 0;
}

void SharedSteps::TakeTogether(int64_t step) {
  memory_->given_together.store(true, std::memory_order_relaxed);
  const int64_t taken = 2 * step + 1;
  int64_t first = memory_->words[0].load(std::memory_order_relaxed);
  while (taken > first &&
         !memory_->words[0].compare_exchange_weak(first, taken, std::memory_order_relaxed)) {
  }
}

}  // namespace ranklog::internal
