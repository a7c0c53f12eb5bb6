// What libcurl hands over of one answer.

#ifndef SERVICE_DELIVER_HTTP_CURL_ANSWER_H_
#define SERVICE_DELIVER_HTTP_CURL_ANSWER_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver {

struct CurlAnswer {
  HttpResponse response;
  size_t max_body = 0;
  int retry_after_headers = 0;
  absl::optional<double> remaining;  // remaining quota, from RateLimit-Remaining
  absl::optional<double> reset;      // seconds until the quota is renewed, from RateLimit-Reset

  // libcurl's callbacks for the body and for each header. `user` is the CurlAnswer.
  static size_t OnBody(char* data, size_t size, size_t count, void* user);
  static size_t OnHeader(char* data, size_t size, size_t count, void* user);
};

// The wait in a Retry-After header: seconds, possibly with a fraction, or an HTTP date relative to
// `now`. nullopt if it is neither.
absl::optional<absl::Duration> ParseRetryAfter(absl::string_view value, absl::Time now);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_CURL_ANSWER_H_
