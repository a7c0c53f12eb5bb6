// HTTP by libcurl: one handle, so that the connection to the backend is kept from one request to
// the next.

#ifndef SERVICE_DELIVER_CURL_TRANSPORT_H_
#define SERVICE_DELIVER_CURL_TRANSPORT_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/deliver/transport.h"

namespace ranklog::deliver {

// Servers' certificates are checked by those that certificates.h finds. Proxies come from the
// environment (http_proxy, HTTPS_PROXY, NO_PROXY), but never for loopback. A redirect is not
// followed: it is the answer. So a request, and the credentials with it, goes to the host of its
// URL and to no other. Bodies go out without waiting for `100 Continue`. No signal handler is set
// up.
class CurlTransport : public Transport {
 public:
  struct Options {
    // Allows http:// beyond loopback, where the credentials would travel in the clear. For test
    // networks.
    bool allow_plain_http = false;
    std::string ca_file{};  // PEM certificates to trust; empty: see certificates.h
    absl::Duration connect_timeout = absl::Seconds(10);
  };

  // libcurl starts, with its cryptography, at the first request: an idle daemon does without.
  static absl::StatusOr<std::unique_ptr<CurlTransport>> Create(const Options& options);
  ~CurlTransport() override;

  //   kFailedPrecondition  also: http:// where https:// is required, a header with a line break
  //   kInternal            libcurl does not start
  absl::StatusOr<HttpResponse> Post(const HttpRequest& request) override;
  void Cancel() override { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  struct Handle;

  explicit CurlTransport(const Options& options);
  absl::Status Start();
  absl::Status Prepare(const HttpRequest& request, const std::string& body);
  absl::StatusOr<HttpResponse> Perform(const HttpRequest& request);
  static int Progress(void* self, int64_t, int64_t, int64_t, int64_t);

  const Options options_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<Handle> handle_;
};

// What a Retry-After header asks for: seconds, with a fraction or not, or an HTTP date, counted
// from `now`. Nothing if it is neither.
absl::optional<absl::Duration> ParseRetryAfter(absl::string_view value, absl::Time now);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_CURL_TRANSPORT_H_
