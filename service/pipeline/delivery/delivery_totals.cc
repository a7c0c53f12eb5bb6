#include "service/pipeline/delivery/delivery_totals.h"

#include <algorithm>

namespace ranklog::pipeline {

AnsweredRows AnsweredRowsOf(const model::Delivery& delivery) {
  // The cursor also passes refused rows and replays.
  const uint64_t others = delivery.refused_rows + delivery.replayed_rows();
  return {.sent = delivery.delivered_rows - std::min(delivery.delivered_rows, others),
          .refused = delivery.refused_rows};
}

void DeliveryTotals::Add(const deliver::StepResult& result, absl::Duration took, absl::Time now,
                         AnsweredRows& counted) {
  // Rows may be refused before the cursor passes them. The totals never decrease.
  AnsweredRows rows = AnsweredRowsOf(result.delivery);
  rows = {.sent = std::max(counted.sent, rows.sent),
          .refused = std::max(counted.refused, rows.refused)};
  dead_letters_ += result.dead_letters.size();
  Destination& destination = destinations_[result.delivery.kind];
  destination.delivered_rows += rows.sent - counted.sent;
  destination.refused_rows += rows.refused - counted.refused;
  counted = rows;
  if (result.exchange == deliver::StepResult::Exchange::kNone) return;
  destination.exchange_time.Add(took);
  if (result.delivery.last_error.empty()) {
    destination.last_success = now;
  } else {
    ++destination.errors;
    destination.last_error = result.delivery.last_error;
    destination.last_error_time = now;
  }
}

}  // namespace ranklog::pipeline
