#include "trainer/model/schedule.h"

#include <cmath>
#include <numbers>

namespace ranklog::trainer {

double CosineSchedule::At(int64_t step) const {
  if (step <= warmup_steps) return peak * static_cast<double>(step) / warmup_steps;
  if (step >= steps) return floor;
  const double way = static_cast<double>(step - warmup_steps) / (steps - warmup_steps);
  return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * way));
}

}  // namespace ranklog::trainer
