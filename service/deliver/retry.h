// What an answer means for what was sent, and how long to wait before the next try.

#ifndef SERVICE_DELIVER_RETRY_H_
#define SERVICE_DELIVER_RETRY_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/transport.h"

namespace ranklog::deliver {

enum class Outcome {
  kAccepted,
  kLater,     // the backend or the way to it is not well; the same again after a while
  kBlocked,   // somebody has to put something right (a key, a right, an address); nothing is given
              // up, and the same is tried again, seldom
  kRefused,   // the backend will not take what was sent, however often it is sent
  kTooLarge,  // as kRefused, for its size
};

// By the code alone. kAccepted: 200 to 300; a proxy answers so, too, so look at the body. kRefused:
// 400, 422. kTooLarge: 413. kBlocked: other redirects, 401, 403, 404, 409, 410, 501, and a transport
// that says kFailedPrecondition. kLater: all else, for as long as it takes.
Outcome Judge(const absl::StatusOr<HttpResponse>& answer);

// The start of what a server says, for people: at most 500 bytes, UTF-8 whatever it
// sent, without control characters.
std::string Excerpt(absl::string_view text);

// For people: the code and the start of what the answer says, or the transport's error.
std::string Explain(const absl::StatusOr<HttpResponse>& answer);

// Whether that, or a text with it, is HTTP 401 or 403: a key or a right is missing.
bool IsDenied(absl::string_view explained);

// Waits that double from `min` to `max`, up to a quarter longer each so that many senders spread
// out.
class Backoff {
 public:
  struct Options {
    absl::Duration min = absl::Seconds(2);
    absl::Duration max = absl::Seconds(60);
    absl::Duration blocked = absl::Seconds(60);  // for kBlocked
    // Bounds what an answer may ask for; a broken server's date must not stop us for a year.
    absl::Duration max_retry_after = absl::Hours(1);
    uint64_t seed = 0;  // of what spreads the waits; 0: another one each time
  };

  explicit Backoff(const Options& options);

  // How long to wait after one more failure. What the answer asks for goes before our own figure,
  // unless that is no time at all.
  absl::Duration Next(Outcome outcome, absl::optional<absl::Duration> retry_after);
  void Reset() { failures_ = 0; }  // after a success

 private:
  const Options options_;
  int failures_ = 0;  // in a row
  std::minstd_rand random_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_RETRY_H_
