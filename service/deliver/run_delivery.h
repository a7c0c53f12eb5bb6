// The interface between the delivery loop and a tracker.

#ifndef SERVICE_DELIVER_RUN_DELIVERY_H_
#define SERVICE_DELIVER_RUN_DELIVERY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::deliver {

// The result of a step. The pipeline stores it (PutDelivery, AddDeadLetter) before the next Step().
struct StepResult {
  model::Delivery delivery;                     // the state to be stored
  std::vector<model::DeadLetter> dead_letters;  // without a time; the pipeline sets it
  absl::Duration wait;                          // time until the next Step() is useful
  bool changed = false;                         // the delivery differs from the stored one
  uint64_t rows = 0;                            // of the run, so far
  bool live = false;  // the run continues; if false, its unsent rows are a backlog
  // kAnswered: a request of this step was answered, with any code. kUnanswered: a request was made
  // but not answered.
  enum class Exchange { kNone, kAnswered, kUnanswered } exchange = Exchange::kNone;
  std::string url = {};   // page of the run at the tracker; empty: not known yet, or no page
  bool stop = false;      // a person asked on that page to stop the run
  bool prepared = false;  // the next request is ready in memory and should be sent before others
};

// Delivers one run to one tracker, one request at a time. Used by one thread at a time, but not
// always the same thread.
class RunDelivery {
 public:
  virtual ~RunDelivery() = default;
  // Makes at most one exchange with the tracker. Reads the rows to send from `reader`. A new cursor
  // must be durable before the request is sent. So Step() returns it as `changed` without a
  // request, and the next Step() sends the request. `draining`: do not wait for more rows. `now` is
  // by a steady clock.
  virtual StepResult Step(storage::StoreReader& reader, absl::Time now, bool draining) = 0;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_RUN_DELIVERY_H_
