#include "service/deliver/http/url.h"

#include <curl/curl.h>

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ranklog::deliver {

std::string Url::host() const {
  if (absl::StartsWith(netloc, "[")) return netloc.substr(0, netloc.find(']') + 1);
  return netloc.substr(0, netloc.find(':'));
}

bool Url::loopback() const {
  const std::string name = host();
  return name == "localhost" || name == "[::1]" ||
         (absl::StartsWith(name, "127.") &&
          name.find_first_not_of("0123456789.") == std::string::npos);
}

// curl_url() would need more code. It accepts most of what must be refused here: one slash, "#"
// without a fragment, an encoded host. It also keeps the case of the host, and its parts must be
// freed.
absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  const auto error = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("URL '", text, "' ", why));
  };
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) {
      return absl::InvalidArgumentError("the URL contains a space or a control character");
    }
  }
  // The text may contain a password, so the error does not repeat it.
  if (absl::StrContains(text, "@")) {
    return absl::InvalidArgumentError("the URL contains a user or a password, or an @");
  }
  const size_t colon = text.find("://");
  if (colon == absl::string_view::npos) return error("has no http:// or https://");
  Url url;
  url.scheme = absl::AsciiStrToLower(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") return error("is not http or https");
  const absl::string_view rest = text.substr(colon + 3);
  if (rest.find_first_of("?#") != absl::string_view::npos)
    return error("has a query or a fragment");
  const size_t slash = rest.find('/');
  url.netloc = absl::AsciiStrToLower(rest.substr(0, slash));
  if (slash != absl::string_view::npos) url.path = std::string(rest.substr(slash));
  if (url.netloc.empty() || url.netloc[0] == ':') return error("has no host");
  if (url.netloc[0] == '[') {
    const size_t end = url.netloc.find(']');
    if (end == std::string::npos || end == 1 ||
        (end + 1 < url.netloc.size() && url.netloc[end + 1] != ':')) {
      return error("has an invalid IPv6 address");
    }
  }
  return url;
}

std::string PercentEncode(absl::string_view text) {
  if (text.empty()) return "";  // curl would look for the end of the text
  const std::unique_ptr<char, decltype(&curl_free)> encoded(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return encoded == nullptr ? "" : encoded.get();
}

}  // namespace ranklog::deliver
