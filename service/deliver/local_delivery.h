#ifndef SERVICE_DELIVER_LOCAL_DELIVERY_H_
#define SERVICE_DELIVER_LOCAL_DELIVERY_H_

#include <utility>

#include "service/deliver/backend.h"

namespace ranklog::deliver {

// Delivers to nobody: the store is the place, so every row is there as soon as it is made, and the
// run's end as soon as the run has ended.
class LocalDelivery : public RunDelivery {
 public:
  explicit LocalDelivery(model::Delivery delivery) : delivery_(std::move(delivery)) {}

  StepResult Step(storage::StoreReader& reader, absl::Time now, bool draining) override;

 private:
  model::Delivery delivery_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_LOCAL_DELIVERY_H_
