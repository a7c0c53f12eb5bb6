// The part of WandbDelivery that sends the alerts of the run's ranks: each once, in their order, as
// soon as the run exists at the server. An alert whose answer was lost is sent again; the server
// drops the second one within the alert's wait.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/alert.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr absl::Duration kAgain = absl::Minutes(1);  // while the server fails with alerts alone

}  // namespace

const model::StoredItem* WandbDelivery::NextAlert() const {
  const auto next =
      std::find_if(singles_.begin(), singles_.end(), [this](const model::StoredItem& stored) {
        return stored.item.kind == model::Item::Kind::kAlert && stored.id > cursor_.alerts;
      });
  return next == singles_.end() ? nullptr : &*next;
}

absl::optional<absl::Duration> WandbDelivery::SendAlert(absl::Time now) {
  const model::StoredItem* const next = NextAlert();
  const bool rows_wait = run_.rows > delivery_.delivered_rows || !ended();
  if (next == nullptr || (rows_wait && now < alerts_not_before_)) return absl::nullopt;
  const model::Json& alert = next->item.object;
  const std::string level = TextOf(alert, "level");
  const absl::StatusOr<HttpResponse> answer =
      Post(Endpoint::kGraphql, AlertBody({.entity = cursor_.entity,
                                          .project = cursor_.project,
                                          .run_id = cursor_.run_id,
                                          .title = TextOf(alert, "title"),
                                          .text = TextOf(alert, "text"),
                                          .level = level.empty() ? "INFO" : level,
                                          .wait_ms = IntegerOf(alert, "wait_ms")}));
  const Outcome outcome = Classify(answer);
  std::string refusal;
  if (outcome != Outcome::kAccepted) {
    // Nothing that concerns alerts alone may hold up the rows: the server has none, does not allow
    // them, or fails with them.
    if (ConcernsServer(answer) || (outcome == Outcome::kLater && !rows_wait)) {
      return Failed(outcome, "send an alert", answer, now);
    }
    if (outcome == Outcome::kLater) {
      alerts_not_before_ = now + kAgain;
      return absl::ZeroDuration();
    }
    refusal = Explain(answer);
  } else if (const absl::Status sent = ParseAlert(answer->body); !sent.ok()) {
    refusal = std::string(sent.message());
  }
  if (!refusal.empty()) AddDeadLetter(0, absl::StrCat(kAlertLetter, refusal), ToJsonText(alert));
  cursor_.alerts = next->id;
  delivery_.last_error.clear();
  SettleItems();
  OnSuccess();
  return absl::ZeroDuration();
}

}  // namespace ranklog::deliver::wandb
