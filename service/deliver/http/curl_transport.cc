#include "service/deliver/http/curl_transport.h"

#include <curl/curl.h>

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/pulse.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/curl_answer.h"
#include "service/deliver/http/file_body.h"
#include "service/deliver/http/gzip.h"
#include "service/deliver/http/machine/certificates.h"
#include "service/deliver/http/machine/proxies.h"
#include "service/deliver/http/url.h"

namespace ranklog::deliver {
namespace {

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

bool StartCurl() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

absl::Status ErrorOf(CURLcode code, const std::string& message) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(message);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      return absl::FailedPreconditionError(message);
    default:
      return absl::UnavailableError(message);
  }
}

bool HasLineBreak(absl::string_view text) {
  return text.find_first_of(absl::string_view("\r\n\0", 3)) != absl::string_view::npos;
}

bool AllowsHttp(const std::map<std::string, std::string>& variables) {
  const auto found = variables.find("RANKLOG_ALLOW_HTTP");
  return found != variables.end() &&
         (found->second == "1" || absl::EqualsIgnoreCase(found->second, "true"));
}

// The addresses at which stores of files take uploads have their signature in the query.
absl::string_view WithoutQuery(absl::string_view url) { return url.substr(0, url.find('?')); }

}  // namespace

struct CurlTransport::Handle {
  std::unique_ptr<CURL, FreeEasy> easy;
  std::unique_ptr<curl_slist, FreeList> headers;
  FileBody file;
  CurlAnswer answer;
  char error[CURL_ERROR_SIZE] = "";

  void Append(const std::string& header) {
    headers.reset(curl_slist_append(headers.release(), header.c_str()));
  }
};

CurlTransport::Options CurlTransport::Options::FromEnvironment() {
  constexpr char kVariable[] = "RANKLOG_ALLOW_HTTP";
  return {.allow_plain_http = AllowsHttp({{kVariable, EnvironmentVariable(kVariable)}})};
}

absl::StatusOr<std::unique_ptr<CurlTransport>> CurlTransport::Create(const Options& options) {
  return std::unique_ptr<CurlTransport>(new CurlTransport(options));
}

absl::Status CurlTransport::Start() {
  if (handle_->easy != nullptr) return absl::OkStatus();
  if (!StartCurl()) return absl::InternalError("cannot initialize libcurl");
  handle_->easy.reset(curl_easy_init());
  if (handle_->easy == nullptr) return absl::InternalError("cannot create a libcurl handle");
  return absl::OkStatus();
}

CurlTransport::CurlTransport(const Options& options)
    : options_(options), handle_(std::make_unique<Handle>()) {}
CurlTransport::~CurlTransport() = default;

absl::StatusOr<HttpResponse> CurlTransport::Send(const HttpRequest& request) {
  if (cancelled_.load(std::memory_order_relaxed)) {
    return absl::CancelledError("the transport is shut down");
  }
  if (!request.gzip || request.file.has_value()) {
    RETURN_IF_ERROR(Prepare(request, request.body));
    return Perform(request);
  }
  ASSIGN_OR_RETURN(const std::string zipped, Gzip(request.body));
  RETURN_IF_ERROR(Prepare(request, zipped));
  return Perform(request);
}

absl::Status CurlTransport::Prepare(const HttpRequest& request, const std::string& body) {
  RETURN_IF_ERROR(Start());
  const absl::StatusOr<Url> url = ParseUrl(WithoutQuery(request.url));
  if (!url.ok()) return absl::FailedPreconditionError(url.status().message());
  const bool allow_http =
      request.variables.has_value() ? AllowsHttp(*request.variables) : options_.allow_plain_http;
  const bool has_key = !request.basic_user.empty() || !request.bearer.empty();
  const bool may_be_read = allow_http || (request.plain_http_without_key && !has_key);
  if (url->scheme != "https" && !url->loopback() && !may_be_read) {
    return absl::FailedPreconditionError(absl::StrCat(
        "request to ", url->netloc,
        ": http:// is refused, except to this machine; use https://, or set RANKLOG_ALLOW_HTTP=1"));
  }

  CURL* const easy = handle_->easy.get();
  curl_easy_reset(easy);  // keeps open connections
  handle_->headers.reset();
  handle_->file = FileBody();
  handle_->Append("Expect:");
  bool has_type = false;
  for (const auto& [name, value] : request.headers) {
    has_type |= absl::EqualsIgnoreCase(name, "Content-Type");
    if (HasLineBreak(name) || HasLineBreak(value)) {
      return absl::FailedPreconditionError(absl::StrCat("header ", name, ": has a line break"));
    }
    handle_->Append(absl::StrCat(name, ": ", value));
  }
  // libcurl would call any body a form, and stores of files sign the type.
  if (!has_type) handle_->Append("Content-Type:");
  if (request.gzip && !request.file) handle_->Append("Content-Encoding: gzip");

  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request.once ? 1L : 0L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, handle_->headers.get());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "ranklog/" RANKLOG_VERSION);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.file.has_value()) {
    if (const absl::Status opened = handle_->file.Open(*request.file); !opened.ok()) {
      return absl::DataLossError(absl::StrCat(request.file->path, ": ", opened.message()));
    }
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.file->bytes));
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, &FileBody::Read);
    curl_easy_setopt(easy, CURLOPT_READDATA, &handle_->file);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &FileBody::Seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, &handle_->file);
    // The size of a file tells nothing about the time that it takes, but it must move.
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(
        easy, CURLOPT_LOW_SPEED_TIME,
        static_cast<long>(absl::ToInt64Seconds(absl::Ceil(request.timeout, absl::Seconds(1)))));
  } else {
    if (request.method == "GET") {
      curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    } else {
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    }
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS,
                     static_cast<long>(absl::ToInt64Milliseconds(request.timeout)));
  }
  curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, request.insecure_tls ? 0L : 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, request.insecure_tls ? 0L : 2L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, handle_->error);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  if (url->scheme == "https") {
    const std::string& ca_file = options_.ca_file.empty() ? request.ca_file : options_.ca_file;
    const absl::StatusOr<Certificates> trusted =
        ca_file.empty() ? FindCertificates(request.variables.value_or(CertificateVariables()),
                                           OwnCertificateVariables(), SystemBundles())
                        : Certificates{ca_file, ""};
    if (!trusted.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("request to ", WithoutQuery(request.url), ": ", trusted.status().message()));
    }
    for (const CURLoption option : {CURLOPT_CAINFO, CURLOPT_PROXY_CAINFO}) {
      if (!trusted->file.empty()) curl_easy_setopt(easy, option, trusted->file.c_str());
    }
    for (const CURLoption option : {CURLOPT_CAPATH, CURLOPT_PROXY_CAPATH}) {
      if (!trusted->directory.empty()) curl_easy_setopt(easy, option, trusted->directory.c_str());
    }
    if (!request.client_certificate.empty()) {
      curl_easy_setopt(easy, CURLOPT_SSLCERT, request.client_certificate.c_str());
    }
  }
  // An empty string counts too, and overrides our own variable.
  const ProxyVariables proxies = request.variables.has_value() && NameProxies(*request.variables)
                                     ? *request.variables
                                     : OwnProxies();
  curl_easy_setopt(easy, CURLOPT_PROXY, ProxyOf(url->scheme, proxies).c_str());
  curl_easy_setopt(easy, CURLOPT_NOPROXY, NoProxyOf(proxies).c_str());
  if (url->loopback()) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  if (!request.basic_user.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(easy, CURLOPT_USERNAME, request.basic_user.c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, request.basic_password.c_str());
  } else if (!request.bearer.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, request.bearer.c_str());
  }
  return absl::OkStatus();
}

void CurlTransport::Listen(size_t max_answer) {
  CURL* const easy = handle_->easy.get();
  handle_->answer = CurlAnswer();
  handle_->answer.max_body = max_answer;
  handle_->error[0] = '\0';
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &CurlAnswer::OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &handle_->answer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &CurlAnswer::OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &handle_->answer);
}

absl::StatusOr<HttpResponse> CurlTransport::Perform(const HttpRequest& request) {
  CURL* const easy = handle_->easy.get();
  Listen(request.max_answer);
  // Called once a second, even if the tracker is silent; curl enforces the time limits.
  const auto progress = [&](uint64_t sent) {
    Pulse::Beat();
    if (request.on_progress) request.on_progress(sent);
    return cancelled_.load(std::memory_order_relaxed) ? 1 : 0;
  };
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(
      easy, CURLOPT_XFERINFOFUNCTION,
      +[](void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
        return (*static_cast<decltype(&progress)>(user))(static_cast<uint64_t>(sent));
      });
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &progress);
  return Result(request, curl_easy_perform(easy));
}

absl::StatusOr<HttpResponse> CurlTransport::Result(const HttpRequest& request, int result) {
  const auto code = static_cast<CURLcode>(result);
  if (!handle_->file.error().empty()) {
    return absl::DataLossError(absl::StrCat(request.file->path, ": ", handle_->file.error()));
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError("the transport is shut down");
  if (code != CURLE_OK) {
    const char* const why = handle_->error[0] != '\0' ? handle_->error : curl_easy_strerror(code);
    return ErrorOf(code, absl::StrCat("request to ", WithoutQuery(request.url), ": ", why));
  }
  long status = 0;
  curl_easy_getinfo(handle_->easy.get(), CURLINFO_RESPONSE_CODE, &status);
  CurlAnswer& answer = handle_->answer;
  answer.response.code = static_cast<int>(status);
  if (answer.remaining == 0 && answer.reset.has_value()) {
    answer.response.quota_after = absl::Seconds(*answer.reset);
  }
  return std::move(answer.response);
}

// A transport of its own, whose handle curl's multi interface drives.
class CurlTransport::PiecewiseExchange : public Exchange {
 public:
  PiecewiseExchange(const CurlTransport& owner, HttpRequest request)
      : owner_(owner), own_(owner.options_), request_(std::move(request)) {}
  ~PiecewiseExchange() override {
    if (begun_) curl_multi_remove_handle(multi_.get(), own_.handle_->easy.get());
  }

  absl::optional<absl::StatusOr<HttpResponse>> Continue(absl::Duration most) override {
    const absl::Time end = SteadyNow() + most;
    if (!begun_) {
      if (const absl::Status status = Start(); !status.ok()) return status;
    }
    while (true) {
      if (owner_.cancelled_.load(std::memory_order_relaxed)) {
        return absl::CancelledError("the transport is shut down");
      }
      Pulse::Beat();
      int running = 0;
      curl_multi_perform(multi_.get(), &running);
      if (running == 0) break;
      const absl::Duration left = end - SteadyNow();
      if (left <= absl::ZeroDuration()) {
        curl_off_t sent = 0;
        curl_easy_getinfo(own_.handle_->easy.get(), CURLINFO_SIZE_UPLOAD_T, &sent);
        if (request_.on_progress) request_.on_progress(static_cast<uint64_t>(sent));
        return absl::nullopt;
      }
      curl_multi_poll(multi_.get(), nullptr, 0,
                      static_cast<int>(absl::ToInt64Milliseconds(left)) + 1, nullptr);
    }
    int messages = 0;
    const CURLMsg* const done = curl_multi_info_read(multi_.get(), &messages);
    return own_.Result(request_, done == nullptr ? CURLE_FAILED_INIT : done->data.result);
  }

 private:
  absl::Status Start() {
    RETURN_IF_ERROR(own_.Prepare(request_, request_.body));
    multi_.reset(curl_multi_init());
    if (multi_ == nullptr) return absl::InternalError("cannot create a libcurl handle");
    own_.Listen(request_.max_answer);
    begun_ = curl_multi_add_handle(multi_.get(), own_.handle_->easy.get()) == CURLM_OK;
    return begun_ ? absl::OkStatus() : absl::InternalError("libcurl does not take the request");
  }

  struct FreeMulti {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };

  const CurlTransport& owner_;
  CurlTransport own_;
  const HttpRequest request_;
  std::unique_ptr<CURLM, FreeMulti> multi_;
  bool begun_ = false;
};

std::unique_ptr<Exchange> CurlTransport::Begin(HttpRequest request) {
  return std::make_unique<PiecewiseExchange>(*this, std::move(request));
}

}  // namespace ranklog::deliver
