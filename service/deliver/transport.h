// One HTTP exchange with a backend.

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
  std::string basic_user;  // with basic_password: HTTP basic authentication; empty: none
  std::string basic_password;
  std::string body;   // POSTed
  bool gzip = false;  // compress the body
  // Of the job, by name: http_proxy and its like, RANKLOG_ALLOW_HTTP. Absent: our own
  // environment's.
  absl::optional<std::map<std::string, std::string>> variables = absl::nullopt;
  absl::Duration timeout = absl::Seconds(30);
  size_t max_answer = 4 << 20;  // bytes of its body that are kept; a delivery reads no tenth of it
};

struct HttpResponse {
  int code = 0;
  std::string body;                            // at most max_answer; the rest is dropped
  absl::optional<absl::Duration> retry_after;  // if the answer says so
  // If the answer says that it was the last which the quota allows: until there is more of it.
  absl::optional<absl::Duration> quota_after;
};

// Blocks for at most the request's timeout. Not thread-safe, but for Cancel(), unless it says so.
class Transport {
 public:
  virtual ~Transport() = default;
  // The answer, whatever its code: a 503 is an answer.
  //   kUnavailable         no connection, or it broke; the backend may have acted
  //   kDeadlineExceeded    no answer in time; the backend may have acted
  //   kCancelled           Cancel() was called; the backend may have acted
  //   kFailedPrecondition  an untrusted certificate, an unsupported URL: trying again is no use
  virtual absl::StatusOr<HttpResponse> Post(const HttpRequest& request) = 0;

  // From any thread: a Post() under way ends within about a second, later ones at once, with
  // kCancelled. For shutting down.
  virtual void Cancel() {}
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_TRANSPORT_H_
