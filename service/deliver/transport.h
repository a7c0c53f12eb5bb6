// One HTTP exchange with a tracker.

#ifndef SERVICE_DELIVER_TRANSPORT_H_
#define SERVICE_DELIVER_TRANSPORT_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::deliver {

struct HttpRequest {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  // User for HTTP basic authentication, with basic_password; empty: no authentication.
  std::string basic_user;
  std::string basic_password;
  std::string body;   // body of the POST
  bool gzip = false;  // compress the body
  // Environment of the job, by name: http_proxy and similar, CURL_CA_BUNDLE and similar,
  // RANKLOG_ALLOW_HTTP. nullopt: the daemon's own environment applies.
  absl::optional<std::map<std::string, std::string>> variables = absl::nullopt;
  absl::Duration timeout = absl::Seconds(30);
  // Limit for the body of the answer; deliveries need less than a tenth.
  size_t max_answer = 4 << 20;
};

struct HttpResponse {
  static constexpr int kUnauthorized = 401;  // the credential is missing or refused

  int code = 0;
  std::string body;                            // at most max_answer; the rest is dropped
  absl::optional<absl::Duration> retry_after;  // if the answer has it
  // If this answer used up the rate limit: the time until it is renewed.
  absl::optional<absl::Duration> quota_after;
};

// Blocks for at most the request's timeout. Not thread-safe, except Cancel(), unless an
// implementation says otherwise.
class Transport {
 public:
  virtual ~Transport() = default;
  // Returns the answer, with any code: a 503 is an answer.
  //   kUnavailable         no connection, or it broke; the tracker may have acted
  //   kDeadlineExceeded    no answer in time; the tracker may have acted
  //   kCancelled           Cancel() was called; the tracker may have acted
  //   kFailedPrecondition  an untrusted certificate or an unsupported URL: a retry cannot help
  virtual absl::StatusOr<HttpResponse> Post(const HttpRequest& request) = 0;

  // For shutdown, from any thread. A running Post() ends within about a second, later ones at once,
  // with kCancelled.
  virtual void Cancel() {}
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_TRANSPORT_H_
