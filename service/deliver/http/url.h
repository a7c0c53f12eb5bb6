// The parts of a URL that decide where a request and its credentials go.

#ifndef SERVICE_DELIVER_HTTP_URL_H_
#define SERVICE_DELIVER_HTTP_URL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver {

struct Url {
  std::string scheme;  // http or https
  std::string netloc;  // host, or host:port, in lower case
  std::string path;    // with its leading slash; may be empty

  std::string host() const;  // without the port
  bool loopback() const;     // localhost, 127.0.0.0/8, ::1
};

// kInvalidArgument: not http or https, without a host, or containing a user (or any @), a query, a
// fragment, spaces or control characters.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

// Encodes `text` as a path segment: all bytes except letters, digits and -._~ become %XX.
std::string PercentEncode(absl::string_view text);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_URL_H_
