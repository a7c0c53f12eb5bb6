#include "service/deliver/mlflow/mlflow_delivery.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "service/base/status_macros.h"
#include "service/deliver/mlflow/mlflow_destination.h"

namespace ranklog::deliver::mlflow {

MlflowDelivery::MlflowDelivery(const Destination& destination, model::Run run,
                               model::Delivery delivery, const DeliveryParts& parts,
                               Options options)
    : TrackerDelivery(destination, std::move(run), std::move(delivery), parts, options.backoff),
      cursor_(CursorFrom(delivery_.cursor)),
      options_(std::move(options)),
      content_dir_(parts.content_dir) {
  // The daemon before this one may have sent the next request.
  if (cursor_.created()) unsure_until_ = kMaxMetrics;
}

std::string MlflowDelivery::PageUrl() const {
  return PageOf(server(), cursor_.experiment_id, cursor_.run_id);
}

absl::StatusOr<absl::Duration> MlflowDelivery::Act(storage::StoreReader& reader, absl::Time now,
                                                   bool draining) {
  if (!cursor_.created()) return Begin(reader, now);
  if (!points_) points_.emplace(run_.settings.imported, cursor_.replays_through);
  if (check_run_) return CheckRun(now);
  if (gone_) return OnRunGone(now);
  if (!ended()) {
    if (const Wait wait = SetStatus(StatusOf(run_.state), 0, now)) return *wait;
    if (const Wait wait = SettleParent(now)) return *wait;
  }
  if (now >= next_description_ || ended() || draining) {
    RETURN_IF_ERROR(ReadDescription(reader));
    next_description_ = now + options_.describe_interval;
  }
  if (const Wait wait = SendDescription(now)) return *wait;
  ASSIGN_OR_RETURN(const Wait rows, SendRows(reader, now, draining));
  if (rows) return *rows;
  ASSIGN_OR_RETURN(const Wait samples, SendSamples(reader, now, draining));
  if (samples) return *samples;
  if (const Wait wait = SendContent(now)) return *wait;
  SettleItems();
  if (ended()) return End(reader, now);
  ForgetEnd();
  return options_.poll_interval;
}

absl::StatusOr<HttpResponse> MlflowDelivery::SendRequest(HttpRequest request, bool large) {
  request.timeout = large ? options_.long_timeout : options_.timeout;
  SetTrust(run_.settings, &request);
  request.max_answer = 64 << 20;
  return Send(std::move(request), /*limited=*/large);
}

MlflowDelivery::Wait MlflowDelivery::SearchRuns(const RunFilter& filter, absl::string_view what,
                                                absl::Time now, std::vector<ServerRun>* runs) {
  const absl::StatusOr<HttpResponse> answer = SendRequest(
      Post(server(), "runs/search", SearchBody(cursor_.experiment_id, filter, found_.next)));
  if (Classify(answer) != Outcome::kAccepted) {
    found_ = {};
    return NotAccepted(what, answer, now);
  }
  absl::StatusOr<RunPage> page = ParseRuns(*answer);
  if (!page.ok()) {
    found_ = {};
    return BlockedByAnswer(page.status(), answer, now);
  }
  OnSuccess();
  std::move(page->runs.begin(), page->runs.end(), std::back_inserter(found_.runs));
  found_.next = page->next;
  if (!found_.next.empty()) return absl::ZeroDuration();
  *runs = std::exchange(found_, {}).runs;
  return absl::nullopt;
}

absl::Duration MlflowDelivery::NotAccepted(absl::string_view what,
                                           const absl::StatusOr<HttpResponse>& answer,
                                           absl::Time now) {
  return Failed(OfQuestion(Classify(answer)), what, answer, now);
}

}  // namespace ranklog::deliver::mlflow
