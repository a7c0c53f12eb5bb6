// Circuit breakers shared by all deliveries to one server or one project.

#ifndef SERVICE_DELIVER_HTTP_CIRCUIT_BREAKER_H_
#define SERVICE_DELIVER_HTTP_CIRCUIT_BREAKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/http/retry.h"

namespace ranklog::deliver {

// A closed breaker lets any number of callers in. A failure opens it for all of them. After the
// wait, it lets in one caller at a time until one gets an answer, except if the server itself named
// the wait. So only one delivery, and one worker, probes an unreachable server. Afterwards, the
// waiting deliveries can go on in order.
//
// Thread-safe.
class CircuitBreaker {
 public:
  CircuitBreaker(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock);

  // Zero: the caller is inside until it calls Leave(). Otherwise the time to wait.
  absl::Duration Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // Call it when the server answered somebody: it works.
  void Answered() ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it when the server did not answer or asked to wait. Opens the breaker if it is closed. If
  // it is open already, only a longer `retry_after` extends the wait. Returns the time until the
  // next caller may enter. `why` is shown for waiting deliveries.
  absl::Duration Failed(absl::optional<absl::Duration> retry_after, const std::string& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it when the server answered but asked for a pause of this length. Waits that a server asks
  // for are limited by Backoff::Options::max_retry_after.
  void OpenFor(absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // The `why` of the last Failed(), if there was no answer since; else empty.
  std::string why() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of Answered() calls. If a caller fails twice while others got answers in between, the
  // fault is its own. It should not open the breaker for the others.
  uint64_t answers() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::function<absl::Time()> steady_clock_;
  const absl::Duration max_wait_;  // limit for waits that the server asks for
  mutable absl::Mutex mutex_;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Time open_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
  // When the last caller entered.
  absl::Time entered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The breakers of all servers and projects, by a name such as the server's URL. Thread-safe.
class CircuitBreakers {
 public:
  // `steady_clock` must never go back.
  CircuitBreakers(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock);

  // The same breaker for the same name; valid for the lifetime of this object.
  CircuitBreaker* Of(const std::string& place) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Backoff::Options backoff_;
  const std::function<absl::Time()> steady_clock_;
  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<CircuitBreaker>> breakers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_CIRCUIT_BREAKER_H_
