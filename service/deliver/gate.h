// Circuit breakers shared by all deliveries to one server or one project.

#ifndef SERVICE_DELIVER_GATE_H_
#define SERVICE_DELIVER_GATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/retry.h"

namespace ranklog::deliver {

// An open gate lets any number of callers in. A failure closes the gate for all of them. After the
// wait, it lets in one caller at a time until one gets an answer, except if the server itself named
// the wait. So only one delivery, and one worker, probes an unreachable server. Afterwards, the
// waiting deliveries can go on in order.
//
// This is a circuit breaker with the opposite words: a closed gate is an open circuit.
//
// Thread-safe.
class Gate {
 public:
  Gate(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock);

  // Zero: the caller is inside until it calls Leave(). Otherwise the time to wait.
  absl::Duration Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // Call it when the server answered somebody: it works.
  void Answered() ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it when the server did not answer or asked to wait. Closes the gate if it is open. If it
  // is closed already, only a longer `retry_after` extends the wait. Returns the time until the
  // gate opens. `why` is shown for waiting deliveries.
  absl::Duration Failed(absl::optional<absl::Duration> retry_after, const std::string& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it when the server answered but asked for a pause of this length. Waits that a server asks
  // for are limited by Backoff::Options::max_retry_after.
  void CloseFor(absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // The `why` of the last Failed(), if there was no answer since; else empty.
  std::string why() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of Answered() calls. A caller that fails twice while others got answers in between is at
  // fault itself. It should not close the gate for the others.
  uint64_t answers() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::function<absl::Time()> steady_clock_;
  const absl::Duration max_wait_;  // limit for waits that the server asks for
  mutable absl::Mutex mutex_;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Time closed_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
  // When the last caller entered.
  absl::Time entered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The gates of all servers and projects, by a name such as the server's URL. Thread-safe.
class Gates {
 public:
  // `steady_clock` must never go back.
  Gates(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock);

  // The same gate for the same name; valid for the lifetime of this object.
  Gate* Of(const std::string& place) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Backoff::Options backoff_;
  const std::function<absl::Time()> steady_clock_;
  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Gate>> gates_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_GATE_H_
