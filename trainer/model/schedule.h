#ifndef TRAINER_MODEL_SCHEDULE_H_
#define TRAINER_MODEL_SCHEDULE_H_

#include <cstdint>

namespace ranklog::trainer {

// A learning rate that rises linearly over `warmup_steps` to `peak`, then falls along half a cosine
// to `floor` at the last step.
struct CosineSchedule {
  double peak = 0;
  double floor = 0;
  int64_t warmup_steps = 0;
  int64_t steps = 1;

  // The rate of step 1 .. steps; after the last step it stays at the floor.
  double At(int64_t step) const;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_MODEL_SCHEDULE_H_
