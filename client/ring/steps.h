// The open step of a run, shared by all threads of a rank, its forked children, and the processes that
// joined its run by a handle.

#ifndef CLIENT_RING_STEPS_H_
#define CLIENT_RING_STEPS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace ranklog::internal {

inline constexpr int64_t kMaxStep = int64_t{1} << 53;  // the largest that JSON holds exactly

// Lives in memory that forked children share, and that other processes of the user can map by a
// descriptor. Thread-safe, also across processes.
//
// A row without a step takes the open step, which is above all earlier steps. A row that gives its
// step may be below the open step, because steps grow within a ring (RingWriter), not within a run.
//
// Each ring has a word for the steps that its rows gave, written only by its thread. The word is
// twice the step, plus one if the step has a row. The largest word gives the open step. So a row
// with a step needs no locked instruction, which would wait until the earlier rows leave the store
// buffer. If two threads act at the same time, the result is as if one had come first. The first
// kWords - 1 rings have a word of their own; all other rings share the first word.
class SharedSteps {
 public:
  static constexpr uint32_t kWords = 7;  // one cache line with `next`

  // Returns null if the system has no page left. Without a free descriptor, only forked children
  // share the steps.
  static std::unique_ptr<SharedSteps> Create();
  // Shares the steps that the process `pid` made, by the descriptor and the token of that object.
  // Returns null if the process has ended, is not visible here, or has closed the descriptor.
  static std::unique_ptr<SharedSteps> Join(int64_t pid, int descriptor, uint64_t token);
  ~SharedSteps();
  SharedSteps(const SharedSteps&) = delete;
  SharedSteps& operator=(const SharedSteps&) = delete;

  // For Join(). The token is 0 if other processes cannot join.
  int descriptor() const { return fd_; }
  uint64_t token() const { return fd_ < 0 ? 0 : memory_->token; }

  // Returns the word of a new ring.
  uint32_t AddRing();

  // Returns the step of a row that was logged without one, and closes it.
  int64_t TakeOpen() {
    int64_t first = memory_->words[0].load(std::memory_order_relaxed);
    int64_t step;
    do {
      step = std::max(first, largest()) / 2;
    } while (
        !memory_->words[0].compare_exchange_weak(first, 2 * (step + 1), std::memory_order_relaxed));
    return step;
  }

  // Records a row at `step` for the ring with `word`. `step` must not be below the ring's last one.
  // If it is above the open step, it becomes the open step.
  void Take(uint32_t word, int64_t step) {
    if (word == 0) return TakeTogether(step);
    memory_->words[word].store(2 * step + 1, std::memory_order_relaxed);
  }

  int64_t open() const { return largest() / 2; }

  // Whether any row has given its step. If not, the open step is only a count of rows.
  bool any_given() const {
    bool any = memory_->given_together.load(std::memory_order_relaxed);
    const uint32_t words = memory_->next.load(std::memory_order_relaxed);
    for (uint32_t i = 1; i < words; ++i) {
      any |= memory_->words[i].load(std::memory_order_relaxed) != 0;
    }
    return any;
  }

  // The first step for which no row exists yet: the open step while it has no row, else the next
  // one.
  int64_t next() const { return (largest() + 1) / 2; }

 private:
  struct Memory {
    std::atomic<int64_t> words[kWords];
    std::atomic<uint32_t> next = 1;            // the word of the next ring
    std::atomic<bool> given_together = false;  // a step was given, in the first word
    uint64_t token = 0;  // random: tells whether a descriptor is the right one
  };

  SharedSteps(Memory* memory, int fd) : memory_(memory), fd_(fd) {}
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
  const int fd_;  // of the memory; -1: none, or that of another process
};

// The step for a row. It is taken when nothing else can refuse the row, so that a refused row does
// not change the run's steps.
class RowStep {
 public:
  // The open step, which the row closes.
  static RowStep Open(SharedSteps* steps) { return {steps, 0, 0, /*commits=*/true, false}; }
  // `step`, for a row of the ring with `word`.
  static RowStep Given(SharedSteps* steps, uint32_t word, int64_t step) {
    return {steps, word, step, /*commits=*/false, /*counted=*/false};
  }
  // A step that was taken before, by a caller without SharedSteps: the simulator and tests, which
  // choose the steps themselves.
  static RowStep Taken(int64_t step, bool commits = false, bool counted = false) {
    return {nullptr, 0, step, commits, counted};
  }

  bool commits() const { return commits_; }
  // v1::kRowCounted.
  bool counted() const {
    return counted_ || (commits_ && steps_ != nullptr && !steps_->any_given());
  }
  // Whether the step was given, and is below `least`. The open step is above all steps of a ring.
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

#endif  // CLIENT_RING_STEPS_H_
