// The circuit breakers that the delivery of one run shares with other deliveries.

#ifndef SERVICE_DELIVER_TRACKER_RUN_BREAKERS_H_
#define SERVICE_DELIVER_TRACKER_RUN_BREAKERS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/http/circuit_breaker.h"

namespace ranklog::deliver {

// The breaker of the run's server, and that of its project, because limits are per project. Not
// thread-safe; the breakers are.
class RunBreakers {
 public:
  // Both breakers must outlive this object.
  RunBreakers(CircuitBreaker* server, CircuitBreaker* project)
      : server_(server), project_(project) {}

  // Zero: the run is inside both until it calls Leave(). Otherwise the time to wait.
  absl::Duration Enter();
  void Leave();
  // Returns why other runs failed last, if there was no answer since; else empty.
  std::string why() const;

  // The server answered, and asked for a pause of `quota_after` if that is given.
  void Answered(absl::optional<absl::Duration> quota_after);
  // The server did not answer, or asked to wait; `over_limit`: because of the project's limit.
  // Returns the time for which all runs wait, and this one a little longer. Nullopt: other runs
  // were answered since this one failed last, so only this run waits.
  absl::optional<absl::Duration> Failed(bool over_limit, absl::optional<absl::Duration> retry_after,
                                        const std::string& why);
  // The server accepted a request of this run.
  void Succeeded() { answers_at_failure_.reset(); }

 private:
  CircuitBreaker* const server_;
  CircuitBreaker* const project_;
  // server_->answers() at the last failure; nullopt: the last exchange succeeded.
  absl::optional<uint64_t> answers_at_failure_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_TRACKER_RUN_BREAKERS_H_
