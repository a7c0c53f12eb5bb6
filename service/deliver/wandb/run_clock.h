#ifndef SERVICE_DELIVER_WANDB_RUN_CLOCK_H_
#define SERVICE_DELIVER_WANDB_RUN_CLOCK_H_

#include <cstdint>
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

  // At this Unix time in microseconds. Never negative.
  int64_t RuntimeUs(int64_t time_us) const;
  // Since the start of the attempt of that time, as the official client counts system metrics.
  int64_t InAttemptUs(int64_t time_us) const;

 private:
  struct Attempt {
    int64_t begin_us = 0;
    int64_t before_us = 0;  // runtime of the attempts before
  };
  const Attempt& At(int64_t time_us) const;

  std::vector<Attempt> attempts_ = {{}};  // by begin_us; at least one
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_RUN_CLOCK_H_
