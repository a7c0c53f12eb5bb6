// Reports the steps that an idle ring has passed, so that the ring does not hold back the steps of
// others.

#ifndef CLIENT_STREAM_IDLE_PROGRESS_H_
#define CLIENT_STREAM_IDLE_PROGRESS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace ranklog::internal {

// A row takes its step before it is published: some nanoseconds before, or longer if its thread is
// interrupted. So Progress reports the step that was open one second ago. A thread may log a
// smaller step later; such a row is late. After that, the thread gets more time (kIdleBehind).
class IdleProgress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kIdle{1};
  static constexpr std::chrono::seconds kIdleBehind{30};  // as long as ranks wait for one another

  // A row was sent. The steps that it passes need no report.
  void OnRow(int64_t step, bool commits) {
    if (step <= reported_step_) idle_ = kIdleBehind;
    passed_ = std::max(passed_, commits ? step : step - 1);
  }

  // Returns the passed step if one must be reported now. `head`: the head of the ring, all of which
  // was sent.
  std::optional<int64_t> Next(Time now, uint64_t head, int64_t open_step) {
    if (head != head_) {
      head_ = head;
      Sample(now, open_step);
    }
    if (now - sample_time_ < idle_) return std::nullopt;
    const int64_t passed = sample_ - 1;
    Sample(now, open_step);
    if (passed <= passed_) return std::nullopt;
    passed_ = reported_step_ = passed;
    return passed;
  }

  // Called on a new connection: the daemon may have lost what was reported.
  void Reset() { passed_ = -1; }

 private:
  void Sample(Time now, int64_t open_step) {
    sample_ = open_step;
    sample_time_ = now;
  }

  int64_t passed_ = -1;
  int64_t reported_step_ = -1;
  std::chrono::seconds idle_ = kIdle;
  uint64_t head_ = 0;
  int64_t sample_ = 0;
  Time sample_time_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_IDLE_PROGRESS_H_
