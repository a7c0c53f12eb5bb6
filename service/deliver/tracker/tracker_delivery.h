// What the deliveries of runs to every tracker have in common.

#ifndef SERVICE_DELIVER_TRACKER_TRACKER_DELIVERY_H_
#define SERVICE_DELIVER_TRACKER_TRACKER_DELIVERY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/http/transport.h"
#include "service/deliver/run_delivery.h"
#include "service/deliver/tracker/run_breakers.h"
#include "service/deliver/tracker/run_requests.h"

namespace ranklog::deliver {

// Delivers one run to one server. Never gives up: every failure is retried, and `last_error`
// describes it. Waits for a key, and with other runs while the server is out of order or over its
// limit: one breaker per server, and one per project. What the server refuses for good becomes a
// dead letter.
class TrackerDelivery : public RunDelivery {
 public:
  StepResult Step(storage::StoreReader& reader, absl::Time now, bool draining) final;

 protected:
  // `run` and `delivery` must be as stored; a new delivery has no cursor. `backoff` is for failures
  // of only this run; the breakers have their own.
  TrackerDelivery(const Destination& destination, model::Run run, model::Delivery delivery,
                  const DeliveryParts& parts, const Backoff::Options& backoff);

  // Makes at most one exchange, and returns the time to wait. An error blocks the run. The run was
  // just read again, and its job may have a key.
  virtual absl::StatusOr<absl::Duration> Act(storage::StoreReader& reader, absl::Time now,
                                             bool draining) = 0;
  // Whether the run exists at the server. From then on, its server does not change, and its cursor
  // is stored.
  virtual bool IsCreated() const = 0;
  // Whether the cursor must be stored before that, too.
  virtual bool HasCursor() const { return IsCreated(); }
  virtual model::Json CursorJson() const = 0;
  // The run's page; called once it is created. Empty: none.
  virtual std::string PageUrl() const { return ""; }
  // Whether a person asked on that page to stop the run, as far as the last answer told.
  virtual bool IsStopRequested() const { return false; }
  // Whether the next request is ready in memory.
  virtual bool IsPrepared() const { return false; }

  // `limited`: the server may ask for pauses of the project in the answer.
  absl::StatusOr<HttpResponse> Send(HttpRequest request, bool limited);
  // See RunRequests. Its failures stop no other run.
  absl::StatusOr<HttpResponse> SendOutside(HttpRequest request) {
    return requests_.SendOutside(std::move(request));
  }
  std::unique_ptr<Exchange> BeginOutside(HttpRequest request) {
    return requests_.BeginOutside(std::move(request));
  }
  // Each of the next three returns the time to wait. The answer is not accepted; `what` was tried.
  absl::Duration Failed(Outcome outcome, absl::string_view what,
                        const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  absl::Duration Blocked(absl::string_view message, absl::Time now);
  // An answer that is accepted, but does not fit the question.
  absl::Duration BlockedByAnswer(const absl::Status& why,
                                 const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  void OnSuccess();
  void AddDeadLetter(uint64_t row, std::string answer, std::string content);

  bool ended() const { return run_.state != model::RunState::kRunning; }
  // The address of the server as it was given, and checked; the latter is empty if it is wrong.
  const std::string& address() const { return address_; }
  std::string server() const { return requests_.server(); }
  const RunRequests& requests() const { return requests_; }

  const Destination& destination_;
  model::Run run_;
  model::Delivery delivery_;

 private:
  // Reads the run again. Until the tracker has a part of it, its server may change.
  absl::Status ReadRun(storage::StoreReader& reader);
  // The time that this run must wait; zero: it is inside both breakers.
  absl::Duration Enter(absl::Time now);
  void SetWaitReason(absl::Duration wait);
  absl::Duration Until(absl::Time time, absl::Time now) const;
  bool AwaitsRanks(absl::Time now) const;
  absl::StatusOr<absl::Duration> ReadAndAct(storage::StoreReader& reader, absl::Time now,
                                            bool draining);
  std::string AdviceFor(const absl::StatusOr<HttpResponse>& answer) const;

  RunBreakers breakers_;
  const absl::Time ranks_return_by_;
  std::string address_;
  RunRequests requests_;
  model::Delivery reported_;                     // state returned by the last Step()
  std::vector<model::DeadLetter> dead_letters_;  // not returned yet
  Backoff backoff_;
  absl::Time not_before_ = absl::InfinitePast();
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_TRACKER_TRACKER_DELIVERY_H_
