#include "service/deliver/tracker/local_delivery.h"

#include <string>

namespace ranklog::deliver {

StepResult LocalDelivery::Step(storage::StoreReader& reader, absl::Time /*now*/,
                               bool /*draining*/) {
  constexpr absl::Duration kPause = absl::Seconds(15);  // only users read this count, so it may lag
  const model::Delivery before = delivery_;
  StepResult result;
  if (const absl::StatusOr<model::Run> run = reader.GetRun(delivery_.run); run.ok()) {
    delivery_.delivered_rows = run->rows;
    result.live = run->state == model::RunState::kRunning;
    delivery_.complete = !result.live;
    delivery_.last_error.clear();
  } else {
    delivery_.last_error = std::string(run.status().message());
  }
  result.delivery = delivery_;
  result.changed = delivery_.delivered_rows != before.delivered_rows ||
                   delivery_.complete != before.complete ||
                   delivery_.last_error != before.last_error;
  result.wait = delivery_.complete ? absl::InfiniteDuration() : kPause;
  return result;
}

}  // namespace ranklog::deliver
