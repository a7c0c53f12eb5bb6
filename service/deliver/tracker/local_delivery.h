#ifndef SERVICE_DELIVER_TRACKER_LOCAL_DELIVERY_H_
#define SERVICE_DELIVER_TRACKER_LOCAL_DELIVERY_H_

#include <utility>

#include "service/deliver/run_delivery.h"

namespace ranklog::deliver {

// The delivery of runs that stay on this node. A row is delivered as soon as it is in the store,
// and the end of the run as soon as the run has ended.
class LocalDelivery : public RunDelivery {
 public:
  explicit LocalDelivery(model::Delivery delivery) : delivery_(std::move(delivery)) {}

  StepResult Step(storage::StoreReader& reader, absl::Time now, bool draining) override;

 private:
  model::Delivery delivery_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_TRACKER_LOCAL_DELIVERY_H_
