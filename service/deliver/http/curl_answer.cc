#include "service/deliver/http/curl_answer.h"

#include <curl/curl.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace ranklog::deliver {
namespace {

// Headers of an answer that are kept. A tracker sends a dozen or two, each of at most the 100 KiB of
// curl.
constexpr size_t kMaxHeaders = 64;

absl::optional<double> Number(absl::string_view text) {
  double number = 0;
  const bool good = absl::SimpleAtod(text, &number) && std::isfinite(number) && number >= 0;
  return good ? absl::optional<double>(number) : absl::nullopt;
}

}  // namespace

size_t CurlAnswer::OnBody(char* data, size_t size, size_t count, void* user) {
  auto& answer = *static_cast<CurlAnswer*>(user);
  std::string& body = answer.response.body;
  body.append(data, std::min(size * count, answer.max_body - body.size()));
  return size * count;
}

size_t CurlAnswer::OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& answer = *static_cast<CurlAnswer*>(user);
  const absl::string_view line(data, size * count);
  if (absl::StartsWith(line, "HTTP/")) {  // a new answer after an informational one
    answer = {.response = {}, .max_body = answer.max_body, .remaining = {}, .reset = {}};
    return size * count;
  }
  const size_t colon = std::min(line.find(':'), line.size() - 1);
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (name == "retry-after") {
    answer.response.retry_after = ParseRetryAfter(value, absl::Now());
    if (++answer.retry_after_headers > 1) answer.response.retry_after = absl::nullopt;
  } else if (name == "ratelimit-remaining") {
    answer.remaining = Number(value);
  } else if (name == "ratelimit-reset") {
    answer.reset = Number(value);
  }
  auto& headers = answer.response.headers;
  if (headers.size() < kMaxHeaders) headers[name] = std::string(value);
  return size * count;
}

absl::optional<absl::Duration> ParseRetryAfter(absl::string_view value, absl::Time now) {
  double seconds = 0;
  if (absl::SimpleAtod(value, &seconds)) {
    if (!std::isfinite(seconds) || seconds < 0) return absl::nullopt;
    return absl::Seconds(seconds);
  }
  const time_t date = curl_getdate(std::string(value).c_str(), nullptr);
  if (date < 0) return absl::nullopt;
  return std::max(absl::FromTimeT(date) - now, absl::ZeroDuration());
}

}  // namespace ranklog::deliver
