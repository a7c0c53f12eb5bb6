// The open step of a run: one for all threads of a rank and the children that it forks.

#ifndef CLIENT_STEPS_H_
#define CLIENT_STEPS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace ranklog::internal {

inline constexpr int64_t kMaxStep = int64_t{1} << 53;  // what a JSON number holds exactly

// In memory that forked children share. Any thread, any process.
//
// Each ring has a word for the steps that it was given, which only its thread writes: the open step
// is the largest of the words. So a row with a step costs no locked instruction, which would wait
// for the rows before it to leave the store buffer; what two threads do at once counts as if one
// had come first. Rings beyond kWords have the first word together.
class SharedSteps {
 public:
  static constexpr uint32_t kWords = 7;  // with their number a cache line

  // Null if the system has no page left.
  static std::unique_ptr<SharedSteps> Create();
  ~SharedSteps();
  SharedSteps(const SharedSteps&) = delete;
  SharedSteps& operator=(const SharedSteps&) = delete;

  // The word of one more ring.
  uint32_t AddRing();

  // The step of a row that was logged without one; closes it.
  int64_t TakeOpen() {
    int64_t first = memory_->words[0].load(std::memory_order_relaxed);
    int64_t step;
    do {
      step = std::max(first, open());
    } while (!memory_->words[0].compare_exchange_weak(first, step + 1, std::memory_order_relaxed));
    return step;
  }

  // Opens `step` for the ring with `word`, and closes all below. False: it is closed.
  bool Take(uint32_t word, int64_t step) {
    if (step < open()) return false;
    if (word == 0) return TakeTogether(step);
    memory_->words[word].store(step, std::memory_order_relaxed);
    return true;
  }

  int64_t open() const {
    int64_t open = memory_->words[0].load(std::memory_order_relaxed);
    const uint32_t words = memory_->next.load(std::memory_order_relaxed);
    for (uint32_t i = 1; i < words; ++i) {
      open = std::max(open, memory_->words[i].load(std::memory_order_relaxed));
    }
    return open;
  }

 private:
  struct Memory {
    std::atomic<int64_t> words[kWords];
    std::atomic<uint32_t> next = 1;  // the word of the next ring
  };

  explicit SharedSteps(Memory* memory) : memory_(memory) {}
  bool TakeTogether(int64_t step);

  Memory* const memory_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STEPS_H_
