#include "service/deliver/gate.h"

#include <algorithm>
#include <utility>

namespace ranklog::deliver {
namespace {

// How soon a waiting caller checks again whether the caller inside was answered. Short at first, so
// that waiting callers go on together and in order; longer when the answer takes long.
constexpr absl::Duration kLookSoon = absl::Milliseconds(10);
constexpr absl::Duration kLookSeldom = absl::Seconds(1);

}  // namespace

Gate::Gate(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock)
    : steady_clock_(std::move(steady_clock)),
      max_wait_(backoff.max_retry_after),
      backoff_(backoff) {}

absl::Duration Gate::Enter() {
  const absl::Time now = steady_clock_();
  absl::MutexLock lock(&mutex_);
  if (now < closed_until_) return closed_until_ - now;
  if (failing_ && inside_ > 0) return std::clamp(now - entered_, kLookSoon, kLookSeldom);
  ++inside_;
  entered_ = now;
  return absl::ZeroDuration();
}

void Gate::Leave() {
  absl::MutexLock lock(&mutex_);
  --inside_;
}

void Gate::Answered() {
  absl::MutexLock lock(&mutex_);
  ++answers_;
  why_.clear();
  failing_ = false;
  backoff_.Reset();
}

absl::Duration Gate::Failed(absl::optional<absl::Duration> retry_after, const std::string& why) {
  const absl::Time now = steady_clock_();
  absl::MutexLock lock(&mutex_);
  why_ = why;
  failing_ = !retry_after.has_value();
  // Failures of callers that were inside together count as one.
  if (now >= closed_until_) closed_until_ = now + backoff_.Next(Outcome::kLater, retry_after);
  // If the server names a longer wait to one caller, all wait that long.
  if (retry_after) closed_until_ = std::max(closed_until_, now + std::min(*retry_after, max_wait_));
  return closed_until_ - now;
}

void Gate::CloseFor(absl::Duration wait) {
  const absl::Time now = steady_clock_();
  absl::MutexLock lock(&mutex_);
  closed_until_ = std::max(closed_until_, now + std::min(wait, max_wait_));
}

std::string Gate::why() const {
  absl::MutexLock lock(&mutex_);
  return why_;
}

uint64_t Gate::answers() const {
  absl::MutexLock lock(&mutex_);
  return answers_;
}

Gates::Gates(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock)
    : backoff_(backoff), steady_clock_(std::move(steady_clock)) {}

Gate* Gates::Of(const std::string& place) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<Gate>& gate = gates_[place];
  if (gate == nullptr) gate = std::make_unique<Gate>(backoff_, steady_clock_);
  return gate.get();
}

}  // namespace ranklog::deliver
