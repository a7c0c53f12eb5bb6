// The open step of a run: one for all threads of a rank and the children that it forks.

#ifndef CLIENT_STEPS_H_
#define CLIENT_STEPS_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace ranklog::internal {

inline constexpr int64_t kMaxStep = int64_t{1} << 53;  // what a JSON number holds exactly

// In memory that forked children share. Any thread, any process.
class SharedSteps {
 public:
  // Null if the system has no page left.
  static std::unique_ptr<SharedSteps> Create();
  ~SharedSteps();
  SharedSteps(const SharedSteps&) = delete;
  SharedSteps& operator=(const SharedSteps&) = delete;

  // The step of a row that was logged without one; closes it.
  int64_t TakeOpen() { return open_->fetch_add(1, std::memory_order_relaxed); }

  // Opens `step`, and closes all below. False: it is closed.
  bool Take(int64_t step) {
    int64_t open = open_->load(std::memory_order_relaxed);
    while (step > open) {
      if (open_->compare_exchange_weak(open, step, std::memory_order_relaxed)) return true;
    }
    return step == open;
  }

  int64_t open() const { return open_->load(std::memory_order_relaxed); }

 private:
  explicit SharedSteps(std::atomic<int64_t>* open) : open_(open) {}

  std::atomic<int64_t>* const open_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STEPS_H_
