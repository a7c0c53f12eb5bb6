// A tracker, as the delivery loop sees it.

#ifndef SERVICE_DELIVER_BACKEND_H_
#define SERVICE_DELIVER_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/model/run.h"
#include "service/storage/store.h"

namespace ranklog::deliver {

// What a delivery reports back; the pipeline stores it (PutDelivery, AddDeadLetter) before the next
// Step().
struct StepResult {
  model::Delivery delivery;                     // as it is to be stored
  std::vector<model::DeadLetter> dead_letters;  // without a time; the pipeline stamps them
  absl::Duration wait;                          // until the next Step() is worth making
  bool changed = false;                         // the delivery differs from what is stored
  uint64_t rows = 0;                            // of the run, so far
  bool live = false;  // the run goes on; else what is left of it is a backlog
  // A request of this step was answered, whatever the answer; or one was made, and none was.
  enum class Exchange { kNone, kAnswered, kUnanswered } exchange = Exchange::kNone;
  std::string url = {};   // where the tracker shows the run; empty: not known yet, or nowhere
  bool prepared = false;  // the next request is made and in memory: it should go before others
};

// Delivers one run to one tracker, a request at a time. Used by one thread at a time, not always
// the same.
class RunDelivery {
 public:
  virtual ~RunDelivery() = default;
  // Makes at most one exchange with the tracker. Reads what there is to send from `reader`. What
  // must be durable before a request goes out (a new place) comes back as `changed` without a
  // request having been made; the next Step() makes it. `draining`: do not wait to gather more.
  // `now` is of a steady clock.
  virtual StepResult Step(storage::StoreReader& reader, absl::Time now, bool draining) = 0;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_BACKEND_H_
