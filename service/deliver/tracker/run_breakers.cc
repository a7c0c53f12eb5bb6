#include "service/deliver/tracker/run_breakers.h"

namespace ranklog::deliver {
namespace {

// Added to the wait of a run that found the server unreachable. Other runs try first, because this
// run may itself be the cause.
constexpr absl::Duration kLetOthersTry = absl::Milliseconds(100);

}  // namespace

absl::Duration RunBreakers::Enter() {
  if (const absl::Duration wait = server_->Enter(); wait > absl::ZeroDuration()) return wait;
  const absl::Duration wait = project_->Enter();
  if (wait > absl::ZeroDuration()) server_->Leave();
  return wait;
}

void RunBreakers::Leave() {
  project_->Leave();
  server_->Leave();
}

std::string RunBreakers::why() const {
  const std::string why = server_->why();
  return why.empty() ? project_->why() : why;
}

void RunBreakers::Answered(absl::optional<absl::Duration> quota_after) {
  server_->Answered();
  project_->Answered();
  if (quota_after) project_->OpenFor(*quota_after);
}

// Other runs usually meet the same failure, so all of them wait together.
absl::optional<absl::Duration> RunBreakers::Failed(bool over_limit,
                                                   absl::optional<absl::Duration> retry_after,
                                                   const std::string& why) {
  if (over_limit) {
    server_->Answered();
    return project_->Failed(retry_after, why);
  }
  const uint64_t answers = server_->answers();
  const bool others_were_answered = answers_at_failure_.value_or(answers) != answers;
  answers_at_failure_ = answers;
  if (others_were_answered) return absl::nullopt;
  return server_->Failed(retry_after, why) + kLetOthersTry;
}

}  // namespace ranklog::deliver
