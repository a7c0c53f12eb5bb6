// The part of WandbDelivery that sends the alerts of the run's ranks: each once, in their order, as
// soon as the run exists at the server. An alert whose answer was lost is sent again; the server
// drops the second one within the alert's wait.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/deliver/json_writer.h"
#include "service/deliver/wandb/graphql.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

std::string TextOf(const model::Json& alert, const char* key, const char* absent) {
  const auto found = alert.find(key);
  return found != alert.end() && found->is_string() ? found->get<std::string>() : absent;
}

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
  if (next == nullptr) return absl::nullopt;
  const model::Json& alert = next->item.object;
  const auto wait = alert.find("wait_ms");
  const absl::StatusOr<HttpResponse> answer = Post(
      Endpoint::kGraphql,
      AlertBody({.entity = cursor_.entity,
                 .project = cursor_.project,
                 .run_id = cursor_.run_id,
                 .title = TextOf(alert, "title", ""),
                 .text = TextOf(alert, "text", ""),
                 .level = TextOf(alert, "level", "INFO"),
                 .wait_ms = wait != alert.end() && wait->is_number_integer() ? wait->get<int64_t>()
                                                                             : int64_t{0}}));
  const Outcome outcome = Classify(answer);
  std::string refusal;
  if (outcome == Outcome::kRefused || outcome == Outcome::kTooLarge) {
    refusal = Explain(answer);
  } else if (outcome != Outcome::kAccepted) {
    return Failed(outcome, "send an alert", answer, now);
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
