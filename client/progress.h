// Tells which steps an idle ring will not come back to, so that it does not hold back the others'
// steps.

#ifndef CLIENT_PROGRESS_H_
#define CLIENT_PROGRESS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace ranklog::internal {

// A row takes its step before it is published, some nanoseconds later, or longer if its thread is
// interrupted; hence what was open a second ago is what is said. A thread may give a smaller step
// than that, which is late then; one that has done so is given more time from then on.
class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kIdle{1};
  static constexpr std::chrono::seconds kIdleBehind{30};  // as long as ranks wait for each other

  // A row went out: what it passes need not be said.
  void OnRow(int64_t step, bool commits) {
    if (step <= told_) idle_ = kIdleBehind;
    passed_ = std::max(passed_, commits ? step : step - 1);
  }

  // `head`: the ring's, all of which was sent. The passed step, if there is one to tell now.
  std::optional<int64_t> Next(Time now, uint64_t head, int64_t open_step) {
    if (head != head_) {
      head_ = head;
      Sample(now, open_step);
    }
    if (now - sample_time_ < idle_) return std::nullopt;
    const int64_t passed = sample_ - 1;
    Sample(now, open_step);
    if (passed <= passed_) return std::nullopt;
    passed_ = told_ = passed;
    return passed;
  }

  // A new connection: the daemon may have forgotten.
  void Reset() { passed_ = -1; }

 private:
  void Sample(Time now, int64_t open_step) {
    sample_ = open_step;
    sample_time_ = now;
  }

  int64_t passed_ = -1;
  int64_t told_ = -1;  // the last that was said
  std::chrono::seconds idle_ = kIdle;
  uint64_t head_ = 0;
  int64_t sample_ = 0;
  Time sample_time_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_PROGRESS_H_
