#include "service/deliver/tracker/tracker_delivery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/advice.h"

namespace ranklog::deliver {
namespace {

constexpr int kTooManyRequests = 429;
// Interval at which a run without a valid key looks for another key. Short, because a user who has
// just corrected the key is watching the run. Each check reads three small files.
constexpr absl::Duration kLookForKey = absl::Seconds(2);
constexpr absl::Duration kLookForRanks = absl::Milliseconds(200);  // such a step sends no request

absl::optional<absl::Duration> RetryAfter(const absl::StatusOr<HttpResponse>& answer) {
  return answer.ok() ? answer->retry_after : absl::nullopt;
}

bool Same(const model::Delivery& a, const model::Delivery& b) {
  return a.delivered_rows == b.delivered_rows && a.refused_rows == b.refused_rows &&
         a.delivered_items == b.delivered_items && a.complete == b.complete &&
         a.last_error == b.last_error && a.cursor == b.cursor;
}

}  // namespace

TrackerDelivery::TrackerDelivery(const Destination& destination, model::Run run,
                                 model::Delivery delivery, const DeliveryParts& parts,
                                 const Backoff::Options& backoff)
    : destination_(destination),
      run_(std::move(run)),
      delivery_(std::move(delivery)),
      breakers_(parts.breakers->Of(destination_.AddressOf(run_.settings)),
                parts.breakers->Of(absl::StrCat(destination_.AddressOf(run_.settings), " ",
                                                run_.settings.entity, " ", run_.project))),
      ranks_return_by_(parts.ranks_return_by),
      address_(destination_.AddressOf(run_.settings)),
      requests_(destination, parts.transport, parts.credentials, address_, run_.project),
      reported_(delivery_),
      backoff_(backoff) {}

StepResult TrackerDelivery::Step(storage::StoreReader& reader, absl::Time now, bool draining) {
  absl::Duration wait = Enter(now);
  if (wait <= absl::ZeroDuration()) {
    if (absl::StatusOr<absl::Duration> acted = ReadAndAct(reader, now, draining); acted.ok()) {
      wait = *acted;
    } else {
      wait = Blocked(absl::string_view(acted.status().message()), now);
    }
    breakers_.Leave();
  } else {
    // While it waits, checks whether the run has ended, because that decides its place in the
    // schedule.
    if (!ended()) ReadRun(reader).IgnoreError();
    SetWaitReason(wait);
  }
  if (HasCursor()) delivery_.cursor = CursorJson();
  StepResult result;
  result.delivery = delivery_;
  result.dead_letters = std::exchange(dead_letters_, {});
  result.changed = !result.dead_letters.empty() || !Same(delivery_, reported_);
  result.wait = wait;
  result.rows = run_.rows;
  result.live = !ended();
  result.exchange = requests_.TakeExchange();
  if (IsCreated()) result.url = PageUrl();
  result.stop = IsStopRequested();
  result.prepared = IsPrepared() && wait <= absl::ZeroDuration();
  reported_ = delivery_;
  return result;
}

absl::Status TrackerDelivery::ReadRun(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(run_, reader.GetRun(run_.id));
  if (std::string address = destination_.AddressOf(run_.settings); address != address_) {
    address_ = std::move(address);
    requests_.SetAddress(address_);
  }
  return absl::OkStatus();
}

absl::Duration TrackerDelivery::Enter(absl::Time now) {
  if (requests_.HasNewKey()) not_before_ = absl::InfinitePast();
  if (now < not_before_) return Until(not_before_, now);
  return breakers_.Enter();
}

// For a run that sent no request itself and waits because another one failed.
void TrackerDelivery::SetWaitReason(absl::Duration wait) {
  constexpr absl::Duration kBrief = absl::Seconds(5);  // shorter waits are not reported
  const bool nothing_to_do = !ended() && delivery_.delivered_rows >= run_.rows;
  if (wait < kBrief || nothing_to_do || !delivery_.last_error.empty()) return;
  delivery_.last_error = breakers_.why();
}

// The time until `time`, or until the next check for a key if a key is missing.
absl::Duration TrackerDelivery::Until(absl::Time time, absl::Time now) const {
  return requests_.awaits_key() ? std::min(time - now, kLookForKey) : time - now;
}

// Whether a missing key may be harmless: the daemon has just started, and the run's ranks have not
// attached yet.
bool TrackerDelivery::AwaitsRanks(absl::Time now) const {
  return now < ranks_return_by_ && !ended() && !requests_.JobHasAttached() && !requests_.HasKey();
}

absl::StatusOr<absl::Duration> TrackerDelivery::ReadAndAct(storage::StoreReader& reader,
                                                           absl::Time now, bool draining) {
  RETURN_IF_ERROR(ReadRun(reader));
  if (!requests_.has_job()) {
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run_.id));
    if (!streams.empty()) requests_.SetJob(JobOf(run_.project, streams.front().key.job_id));
  }
  if (delivery_.complete) {
    if (ended() && run_.rows == delivery_.delivered_rows &&
        run_.last_item <= delivery_.delivered_items) {
      return absl::InfiniteDuration();
    }
    delivery_.complete = false;  // the run continues
  }
  if (AwaitsRanks(now)) return kLookForRanks;
  // Cleared before the next answer, which may take long.
  if (LacksKey(delivery_.last_error) && requests_.HasKey()) {
    delivery_.last_error.clear();
    return absl::ZeroDuration();
  }
  return Act(reader, now, draining);
}

absl::StatusOr<HttpResponse> TrackerDelivery::Send(HttpRequest request, bool limited) {
  absl::StatusOr<HttpResponse> answer = requests_.Send(std::move(request));
  if (answer.ok() && Classify(answer) != Outcome::kLater) {
    breakers_.Answered(limited ? answer->quota_after : absl::nullopt);
  }
  return answer;
}

absl::Duration TrackerDelivery::Failed(Outcome outcome, absl::string_view what,
                                       const absl::StatusOr<HttpResponse>& answer, absl::Time now) {
  if (requests_.TakeOtherKey()) return absl::ZeroDuration();
  // Caused by our own Stop(): the tracker is not at fault, and the next process retries.
  if (absl::IsCancelled(answer.status())) return backoff_.Next(outcome, absl::nullopt);
  // If the key or the address is at fault, no request was sent.
  const bool asked = !absl::IsFailedPrecondition(answer.status());
  delivery_.last_error =
      absl::StrCat(asked ? absl::StrCat(what, ": ") : std::string(), Explain(answer));
  if (outcome == Outcome::kBlocked && !AwaitsPerson(delivery_.last_error)) {
    absl::StrAppend(&delivery_.last_error, kToContinue, AdviceFor(answer));
  }
  absl::optional<absl::Duration> wait_of_all;
  if (outcome == Outcome::kLater) {
    const bool over_limit = answer.ok() && answer->code == kTooManyRequests;
    wait_of_all = breakers_.Failed(over_limit, RetryAfter(answer), delivery_.last_error);
  }
  const absl::Duration wait =
      wait_of_all ? *wait_of_all : backoff_.Next(outcome, RetryAfter(answer));
  not_before_ = now + wait;
  return Until(not_before_, now);
}

absl::Duration TrackerDelivery::Blocked(absl::string_view message, absl::Time now) {
  delivery_.last_error = std::string(message);
  const absl::Duration wait = backoff_.Next(Outcome::kBlocked, absl::nullopt);
  not_before_ = now + wait;
  return wait;
}

absl::Duration TrackerDelivery::BlockedByAnswer(const absl::Status& why,
                                                const absl::StatusOr<HttpResponse>& answer,
                                                absl::Time now) {
  return Blocked(absl::StrCat(why.message(), kToContinue, AdviceFor(answer)), now);
}

std::string TrackerDelivery::AdviceFor(const absl::StatusOr<HttpResponse>& answer) const {
  return Advice(destination_, answer, address_, IsCreated());
}

void TrackerDelivery::OnSuccess() {
  breakers_.Succeeded();
  backoff_.Reset();
}

void TrackerDelivery::AddDeadLetter(uint64_t row, std::string answer, std::string content) {
  dead_letters_.push_back({.run = run_.id,
                           .kind = delivery_.kind,
                           .row = row,
                           .answer = std::move(answer),
                           .content = content.substr(0, model::DeadLetter::kMaxContent)});
}

}  // namespace ranklog::deliver
