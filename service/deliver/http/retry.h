// Classifies answers, and computes the wait before the next try.

#ifndef SERVICE_DELIVER_HTTP_RETRY_H_
#define SERVICE_DELIVER_HTTP_RETRY_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver {

enum class Outcome {
  kAccepted,
  kLater,    // temporary failure of the server or the network; retry the same request after a wait
  kBlocked,  // needs a person: a wrong key, permission or address; nothing is dropped, retry rarely
  kRefused,  // the tracker will never accept this request
  kTooLarge,  // like kRefused, because of its size
};

// Decides by the code alone:
//   kAccepted  200 to 300; a proxy may answer so too, so check the body
//   kRefused   400, 422
//   kTooLarge  413
//   kBlocked   other redirects, 401, 403, 404, 409, 410, 501; kFailedPrecondition and kDataLoss of
//              a transport
//   kLater     everything else, without a limit on retries
Outcome Classify(const absl::StatusOr<HttpResponse>& answer);

// kRefused or kTooLarge: the content of the request is at fault.
bool IsRefusal(Outcome outcome);
// kBlocked for a refusal of a request that has no content to drop: it is repeated, but rarely.
Outcome OfQuestion(Outcome outcome);

// The start of a server's text, to be shown to users: at most 500 bytes of valid UTF-8, without
// control characters.
std::string Excerpt(absl::string_view text);

// Describes the answer for users: the code and the start of its text, or the transport's error.
std::string Explain(const absl::StatusOr<HttpResponse>& answer);

// Part of each error that a person must resolve. Advice for that person follows it.
inline constexpr char kToContinue[] = "; to continue, ";

// Whether the error of a delivery has kToContinue.
bool AwaitsPerson(absl::string_view error);

// Waits that double from `min` to `max`. Each is up to a quarter longer, so that many senders
// spread out, but never longer than `max`.
class Backoff {
 public:
  struct Options {
    absl::Duration min = absl::Seconds(2);
    absl::Duration max = absl::Seconds(60);
    absl::Duration blocked = absl::Seconds(60);  // wait for kBlocked
    // Limits the wait that an answer asks for: a server with a wrong date must not stop us for a
    // year.
    absl::Duration max_retry_after = absl::Hours(1);
    uint64_t seed = 0;  // random seed of the spread; 0: different each time
  };

  explicit Backoff(const Options& options);

  // The wait after one more failure. `retry_after` takes precedence if it is above zero.
  absl::Duration Next(Outcome outcome, absl::optional<absl::Duration> retry_after);
  void Reset() { failures_ = 0; }  // call it after a success

 private:
  const Options options_;
  int failures_ = 0;  // consecutive failures
  std::minstd_rand random_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_RETRY_H_
