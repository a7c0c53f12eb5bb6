// One HTTP exchange with a tracker.

#ifndef SERVICE_DELIVER_HTTP_TRANSPORT_H_
#define SERVICE_DELIVER_HTTP_TRANSPORT_H_

#include <stdint.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::deliver {

// Consecutive bytes of a file.
struct FileRange {
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct HttpRequest {
  std::string method = "POST";  // or GET, PUT, PATCH
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  // For HTTP basic authentication.
  std::string basic_user;
  std::string basic_password;
  std::string bearer;  // a token; only if basic_user is empty. Both empty: no authentication
  std::string body;    // not with GET
  bool gzip = false;   // compress `body`
  // Sent instead of `body`. Is read while it is sent, so its size costs no memory.
  absl::optional<FileRange> file = absl::nullopt;
  // Called on the thread of Send() or Continue(), at least once a second or each time, with the bytes
  // of the body that were sent.
  std::function<void(uint64_t sent)> on_progress{};
  // Environment of the job, by name: http_proxy and similar, CURL_CA_BUNDLE and similar,
  // RANKLOG_ALLOW_HTTP. nullopt: the daemon's own environment applies.
  absl::optional<std::map<std::string, std::string>> variables = absl::nullopt;
  bool insecure_tls = false;  // accept any certificate of the server
  // Files in PEM: the certificates by which the server is verified, instead of all others; our own,
  // with its key. Empty: none.
  std::string ca_file{};
  std::string client_certificate{};
  // Without a credential, the request may go to other machines by http://, too.
  bool plain_http_without_key = false;
  // A repetition would do it twice. By itself, libcurl sends a request again if a connection that it
  // used before breaks before the answer, so this one gets a new connection.
  bool once = false;
  // For the whole exchange. With `file`: for a time in which nothing moves; noticed up to 7 s late.
  absl::Duration timeout = absl::Seconds(30);
  // Limit for the body of the answer; deliveries need less than a tenth.
  size_t max_answer = 4 << 20;
};

struct HttpResponse {
  static constexpr int kUnauthorized = 401;  // the credential is missing or refused

  int code = 0;
  std::string body;                            // at most max_answer; the rest is dropped
  std::map<std::string, std::string> headers;  // by name in small letters; the last of equal names
  absl::optional<absl::Duration> retry_after;  // if the answer has it
  // If this answer used up the rate limit: the time until it is renewed.
  absl::optional<absl::Duration> quota_after;
};

// An exchange that is made piece by piece, so that a large body does not hold up its thread. Used by
// one thread at a time. The destructor ends the exchange.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Works on it, for about `most` at most. Returns the answer once it is there, as Transport::Send()
  // does. Not to be called after that.
  virtual absl::optional<absl::StatusOr<HttpResponse>> Continue(absl::Duration most) = 0;
};

// Not thread-safe, except Cancel(), unless an
// implementation says otherwise.
class Transport {
 public:
  virtual ~Transport() = default;
  // Returns the answer, with any code: a 503 is an answer.
  //   kUnavailable         no connection, or it broke; the tracker may have acted
  //   kDeadlineExceeded    no answer in time; the tracker may have acted
  //   kCancelled           Cancel() was called; the tracker may have acted
  //   kFailedPrecondition  an untrusted certificate or an unsupported URL: a retry cannot help
  //   kDataLoss            the file is absent, shorter than the range or unreadable
  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request) = 0;

  // Begins an exchange with a connection of its own. Thread-safe. This one makes it as a whole, by
  // Send(). The transport must outlive the exchange.
  virtual std::unique_ptr<Exchange> Begin(HttpRequest request);

  // For shutdown, from any thread. A running Send() ends within about a second, later ones at once,
  // with kCancelled.
  virtual void Cancel() {}
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_TRANSPORT_H_
