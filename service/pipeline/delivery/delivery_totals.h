// Totals of all deliveries since the start, by kind of tracker.

#ifndef SERVICE_PIPELINE_DELIVERY_DELIVERY_TOTALS_H_
#define SERVICE_PIPELINE_DELIVERY_DELIVERY_TOTALS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "service/base/duration_histogram.h"
#include "service/deliver/run_delivery.h"
#include "service/model/run.h"

namespace ranklog::pipeline {

// The rows of one delivery that its tracker has answered.
struct AnsweredRows {
  uint64_t sent = 0;  // the rows at the tracker: neither refused rows nor replays
  uint64_t refused = 0;
};
AnsweredRows AnsweredRowsOf(const model::Delivery& delivery);

// Not thread-safe.
class DeliveryTotals {
 public:
  // Of the deliveries to trackers of one kind.
  struct Destination {
    uint64_t delivered_rows = 0;  // without refused rows
    uint64_t refused_rows = 0;
    uint64_t errors = 0;                             // steps that ended with an error
    absl::Time last_success = absl::InfinitePast();  // last exchange without an error; wall clock
    std::string last_error;                          // empty: no error
    absl::Time last_error_time = absl::InfinitePast();
    DurationHistogram exchange_time;  // of steps that made an exchange, answered or not
  };

  // Adds the stored result of a step that took `took` and ended at `now` by the wall clock.
  // `counted` are the rows of the delivery that are in the totals; it is brought up to date.
  void Add(const deliver::StepResult& result, absl::Duration took, absl::Time now,
           AnsweredRows& counted);

  uint64_t dead_letters() const { return dead_letters_; }
  // Only kinds that had a delivery.
  const std::map<std::string, Destination>& destinations() const { return destinations_; }

 private:
  uint64_t dead_letters_ = 0;
  std::map<std::string, Destination> destinations_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_DELIVERY_TOTALS_H_
