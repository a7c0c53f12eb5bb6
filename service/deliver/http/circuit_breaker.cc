#include "service/deliver/http/circuit_breaker.h"

#include <algorithm>
#include <utility>

namespace ranklog::deliver {
namespace {

// How soon a waiting caller checks again whether the caller inside was answered. Short at first, so
// that waiting callers go on together and in order; longer when the answer takes long.
constexpr absl::Duration kLookSoon = absl::Milliseconds(10);
constexpr absl::Duration kLookSeldom = absl::Seconds(1);

}  // namespace

CircuitBreaker::CircuitBreaker(const Backoff::Options& backoff,
                               std::function<absl::Time()> steady_clock)
    : steady_clock_(std::move(steady_clock)),
      max_wait_(backoff.max_retry_after),
      backoff_(backoff) {}

absl::Duration CircuitBreaker::Enter() {
  const absl::Time now = steady_clock_();
  absl::MutexLock lock(&mutex_);
  if (now < open_until_) return open_until_ - now;
  if (failing_ && inside_ > 0) return std::clamp(now - entered_, kLookSoon, kLookSeldom);
  ++inside_;
  entered_ = now;
  return absl::ZeroDuration();
}

void CircuitBreaker::Leave() {
  absl::MutexLock lock(&mutex_);
  --inside_;
}

void CircuitBreaker::Answered() {
  absl::MutexLock lock(&mutex_);
  ++answers_;
  why_.clear();
  failing_ = false;
  backoff_.Reset();
}

absl::Duration CircuitBreaker::Failed(absl::optional<absl::Duration> retry_after,
                                      const std::string& why) {
  const absl::Time now = steady_clock_();
  absl::MutexLock lock(&mutex_);
  why_ = why;
  failing_ = !retry_after.has_value();
  // Failures of callers that were inside together count as one.
  if (now >= open_until_) open_until_ = now + backoff_.Next(Outcome::kLater, retry_after);
  // If the server names a longer wait to one caller, all wait that long.
  if (retry_after) open_until_ = std::max(open_until_, now + std::min(*retry_after, max_wait_));
  return open_until_ - now;
}

void CircuitBreaker::OpenFor(absl::Duration wait) {
  const absl::Time now = steady_clock_();
  absl::MutexLock lock(&mutex_);
  open_until_ = std::max(open_until_, now + std::min(wait, max_wait_));
}

std::string CircuitBreaker::why() const {
  absl::MutexLock lock(&mutex_);
  return why_;
}

uint64_t CircuitBreaker::answers() const {
  absl::MutexLock lock(&mutex_);
  return answers_;
}

CircuitBreakers::CircuitBreakers(const Backoff::Options& backoff,
                                 std::function<absl::Time()> steady_clock)
    : backoff_(backoff), steady_clock_(std::move(steady_clock)) {}

CircuitBreaker* CircuitBreakers::Of(const std::string& place) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<CircuitBreaker>& breaker = breakers_[place];
  if (breaker == nullptr) breaker = std::make_unique<CircuitBreaker>(backoff_, steady_clock_);
  return breaker.get();
}

}  // namespace ranklog::deliver
