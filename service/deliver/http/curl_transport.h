// HTTP by libcurl. Uses one handle, so that the connection to the tracker is reused for later
// requests.

#ifndef SERVICE_DELIVER_HTTP_CURL_TRANSPORT_H_
#define SERVICE_DELIVER_HTTP_CURL_TRANSPORT_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver {

// Servers are verified by the certificates that certificates.h finds. Proxies come from the
// environment (http_proxy, HTTPS_PROXY, NO_PROXY), but never for loopback. Redirects are not
// followed; they are returned as the answer. So a request and its credentials go only to the host
// of its URL. Bodies are sent without waiting for `100 Continue`. Installs no signal handler.
class CurlTransport : public Transport {
 public:
  struct Options {
    // Allows http:// to non-loopback hosts, which sends the credentials unencrypted. For test
    // networks.
    bool allow_plain_http = false;
    std::string ca_file{};  // trusted PEM certificates; empty: see certificates.h
    absl::Duration connect_timeout = absl::Seconds(10);

    // Reads RANKLOG_ALLOW_HTTP (1 or true). Not thread-safe, because getenv is not.
    static Options FromEnvironment();
  };

  // libcurl and its TLS library are initialized at the first request, not in an idle daemon.
  static absl::StatusOr<std::unique_ptr<CurlTransport>> Create(const Options& options);
  ~CurlTransport() override;

  //   kFailedPrecondition  also: http:// where https:// is required, a header with a line break
  //   kInternal            libcurl does not start
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override;
  std::unique_ptr<Exchange> Begin(HttpRequest request) override;
  void Cancel() override { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  struct Handle;
  class PiecewiseExchange;

  explicit CurlTransport(const Options& options);
  absl::Status Start();
  absl::Status Prepare(const HttpRequest& request, const std::string& body);
  absl::StatusOr<HttpResponse> Perform(const HttpRequest& request);
  // What Perform() does before and after the exchange. `code` is a CURLcode.
  void Listen(size_t max_answer);
  absl::StatusOr<HttpResponse> Result(const HttpRequest& request, int code);

  const Options options_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<Handle> handle_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_CURL_TRANSPORT_H_
