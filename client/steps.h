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
// A row without a step takes the open step, which is above all that rows had before. A row that
// gives its step may be below it: steps grow from row to row of a ring (RingWriter), not of a run.
//
// Each ring has a word for the steps that it was given, which only its thread writes: twice the
// step, and one more if the step has a row. The largest of the words is that of the open step. So a
// row with a step costs no locked instruction, which would wait for the rows before it to leave the
// store buffer; what two threads do at once counts as if one had come first. Rings beyond kWords
// have the first word together.
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
      step = std::max(first, largest()) / 2;
    } while (
        !memory_->words[0].compare_exchange_weak(first, 2 * (step + 1), std::memory_order_relaxed));
    return step;
  }

  // The ring with `word` has a row at `step`, which is at least that of its row before. If it is
  // above the open step, it is the open one now.
  void Take(uint32_t word, int64_t step) {
    if (word == 0) return TakeTogether(step);
    memory_->words[word].store(2 * step + 1, std::memory_order_relaxed);
  }

  int64_t open() const { return largest() / 2; }

  // Whether a row has given its step: open steps are no mere count of rows then.
  bool any_given() const {
    bool any = memory_->given_together.load(std::memory_order_relaxed);
    const uint32_t words = memory_->next.load(std::memory_order_relaxed);
    for (uint32_t i = 1; i < words; ++i) {
      any |= memory_->words[i].load(std::memory_order_relaxed) != 0;
    }
    return any;
  }

  // The first step whose rows all come later: the open one while it has no row, else the next.
  int64_t next() const { return (largest() + 1) / 2; }

 private:
  struct Memory {
    std::atomic<int64_t> words[kWords];
    std::atomic<uint32_t> next = 1;            // the word of the next ring
    std::atomic<bool> given_together = false;  // a step, to the first word
  };

  explicit SharedSteps(Memory* memory) : memory_(memory) {}
  int64_t largest() const {
    int64_t largest = memory_->words[0].load(std::memory_order_relaxed);
    const uint32_t words = memory_->next.load(std::memory_order_relaxed);
    for (uint32_t i = 1; i < words; ++i) {
      largest = std::max(largest, memory_->words[i].load(std::memory_order_relaxed));
    }
    return largest;
  }
  void TakeTogether(int64_t step);

  Memory* const memory_;
};

// The step that a row is to have. It is taken when nothing else can refuse the row, so that a row
// which is refused leaves the run's steps as they are.
class RowStep {
 public:
  // The open one, which the row closes.
  static RowStep Open(SharedSteps* steps) { return {steps, 0, 0, /*commits=*/true, false}; }
  // `step`, of a row of the ring with `word`.
  static RowStep Given(SharedSteps* steps, uint32_t word, int64_t step) {
    return {steps, word, step, /*commits=*/false, /*counted=*/false};
  }
  // One that was taken before.
  static RowStep Taken(int64_t step, bool commits = false, bool counted = false) {
    return {nullptr, 0, step, commits, counted};
  }

  bool commits() const { return commits_; }
  // v1::kRowCounted.
  bool counted() const {
    return counted_ || (commits_ && steps_ != nullptr && !steps_->any_given());
  }
  // Whether it was given, and is below `least`. The open one is above all that a ring had.
  bool IsBelow(int64_t least) const { return !(commits_ && steps_ != nullptr) && step_ < least; }
  int64_t Take() const {
    if (steps_ == nullptr) return step_;
    if (commits_) return steps_->TakeOpen();
    steps_->Take(word_, step_);
    return step_;
  }

 private:
  RowStep(SharedSteps* steps, uint32_t word, int64_t step, bool commits, bool counted)
      : steps_(steps), step_(step), word_(word), commits_(commits), counted_(counted) {}

  SharedSteps* steps_;
  int64_t step_;
  uint32_t word_;
  bool commits_;
  bool counted_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STEPS_H_
