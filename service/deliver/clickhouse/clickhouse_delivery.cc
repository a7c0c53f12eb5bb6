#include "service/deliver/clickhouse/clickhouse_delivery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace ranklog::deliver::clickhouse {

ClickhouseDelivery::ClickhouseDelivery(const Destination& destination, model::Run run,
                                       model::Delivery delivery, const DeliveryParts& parts,
                                       Options options)
    : TrackerDelivery(destination, std::move(run), std::move(delivery), parts, options.backoff),
      cursor_(CursorFrom(delivery_.cursor)),
      options_(std::move(options)),
      interval_(options_.insert_interval) {}

absl::StatusOr<absl::Duration> ClickhouseDelivery::Act(storage::StoreReader& reader, absl::Time now,
                                                       bool draining) {
  // After the run was read: its rows come from these.
  ASSIGN_OR_RETURN(streams_, OwnStreams(reader, run_.id));
  if (streams_.empty()) return options_.poll_interval;
  if (const Wait wait = CheckTables(now)) return *wait;
  ASSIGN_OR_RETURN(const Wait rows, SendRows(reader, now, draining));
  if (rows) return *rows;
  ASSIGN_OR_RETURN(const Wait samples, SendSamples(reader, now, draining));
  if (samples) return *samples;
  if (now >= next_description_ || ended() || draining) {
    ASSIGN_OR_RETURN(const Wait description, SendDescription(reader, now));
    if (description) return *description;
    next_description_ = now + options_.describe_interval;
  }
  if (ended() && WaitingRows() == 0 && !cursor_.cut && cursor_.samples >= run_.samples) {
    delivery_.delivered_rows = run_.rows;
    delivery_.complete = true;
    delivery_.last_error.clear();
    return absl::InfiniteDuration();
  }
  return std::min(options_.poll_interval, interval_);
}

absl::StatusOr<HttpResponse> ClickhouseDelivery::SendRequest(HttpRequest request, bool is_insert) {
  request.timeout = is_insert ? options_.insert_timeout : options_.timeout;
  return Send(std::move(request), /*limited=*/false);
}

absl::Duration ClickhouseDelivery::NotAccepted(absl::string_view what,
                                               const absl::StatusOr<HttpResponse>& answer,
                                               absl::Time now) {
  if (ExceptionCode(answer) == kTooManyParts) {
    interval_ = std::min(interval_ * 2, options_.longest_interval);
  }
  const Outcome outcome = OutcomeOf(answer);
  if (outcome != Outcome::kBlocked || !answer.ok() || IsKeyRefused(*answer)) {
    return Failed(outcome, what, answer, now);
  }
  next_check_ = absl::InfinitePast();  // a table may be gone
  return Blocked(absl::StrCat(what, ": ", Explain(answer), kToContinue, AdviceOn(answer, at())),
                 now);
}

}  // namespace ranklog::deliver::clickhouse
