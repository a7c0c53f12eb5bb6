#include "service/base/host_port.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ranklog {
namespace {

constexpr size_t kMaxHost = 253;  // RFC 1035, as text

bool HasOnly(absl::string_view text, absl::string_view others) {
  return std::all_of(text.begin(), text.end(), [others](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           others.find(c) != absl::string_view::npos;
  });
}

}  // namespace

std::string HostPort::Text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::optional<HostPort> ParseHostPort(absl::string_view text, int default_port) {
  absl::string_view host = text;
  absl::string_view rest;
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return absl::nullopt;
    host = text.substr(0, end);
    rest = text.substr(end + 1);
    // % begins the interface of a link-local address.
    if (!HasOnly(host, ":.%_-")) return absl::nullopt;
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
    if (!HasOnly(host, "._-")) return absl::nullopt;
  }
  if (host.empty() || host.size() > kMaxHost) return absl::nullopt;
  HostPort parsed{.host = std::string(host), .port = default_port};
  if (absl::ConsumePrefix(&rest, ":")) {
    const bool digits = !rest.empty() && rest.find_first_not_of("0123456789") == rest.npos;
    if (!digits || !absl::SimpleAtoi(rest, &parsed.port)) return absl::nullopt;
  } else if (!rest.empty()) {
    return absl::nullopt;
  }
  if (parsed.port < 1 || parsed.port > 65535) return absl::nullopt;
  return parsed;
}

}  // namespace ranklog
