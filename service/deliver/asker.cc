#include "service/deliver/asker.h"

#include <algorithm>

#include "absl/time/time.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/masking.h"

namespace ranklog::deliver {

absl::StatusOr<std::string> Asker::Ask(HttpRequest request) const {
  constexpr absl::Duration kRequestTimeout = absl::Seconds(30);
  const absl::Time deadline = options_.now() + options_.timeout;
  Backoff backoff(options_.backoff);
  destination_.Authorize(key_, &request);
  while (true) {
    request.timeout = std::clamp(deadline - options_.now(), absl::Seconds(1), kRequestTimeout);
    absl::StatusOr<HttpResponse> answer = transport_.Send(request);
    MaskKey(key_, request, &answer);
    const Outcome outcome = Classify(answer);
    if (outcome == Outcome::kAccepted) return std::move(answer->body);
    if (outcome != Outcome::kLater) return absl::FailedPreconditionError(Explain(answer));
    const absl::Duration wait =
        backoff.Next(outcome, answer.ok() ? answer->retry_after : absl::nullopt);
    if (options_.now() + wait > deadline) return absl::UnavailableError(Explain(answer));
    options_.sleep(wait);
  }
}

}  // namespace ranklog::deliver
