#ifndef SERVICE_DELIVER_WANDB_HISTORY_RUN_CLOCK_H_
#define SERVICE_DELIVER_WANDB_HISTORY_RUN_CLOCK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// The time for which a run has run: `_runtime`. It does not count the time between two attempts, in
// which the job was down.
class RunClock {
 public:
  RunClock() = default;
  // `before_us`: how long the run had run at other stores.
  RunClock(const model::Run& run, absl::Span<const model::Stream> streams, int64_t before_us);

  // The clock whose Attempts() these are; of an empty list, a clock that began in 1970.
  explicit RunClock(std::vector<std::pair<int64_t, int64_t>> attempts);
  // What the clock knows of attempts: when each began, and the runtime before it.
  const std::vector<std::pair<int64_t, int64_t>>& Attempts() const { return attempts_; }

  // At this Unix time in microseconds. Never negative.
  int64_t RuntimeUs(int64_t time_us) const;
  // Since the start of the attempt of that time, as the official client counts system metrics.
  int64_t InAttemptUs(int64_t time_us) const;

 private:
  using Attempt = std::pair<int64_t, int64_t>;
  const Attempt& At(int64_t time_us) const;

  std::vector<Attempt> attempts_ = {{0, 0}};  // by their begin; at least one
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_HISTORY_RUN_CLOCK_H_
