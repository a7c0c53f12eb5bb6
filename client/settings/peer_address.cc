#include "client/settings/peer_address.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "client/settings/environment.h"

namespace ranklog::internal {
namespace {

constexpr size_t kMaxHost = 253;  // RFC 1035, as text

bool HasOnly(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [others](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           others.find(c) != std::string_view::npos;
  });
}

}  // namespace

bool IsPeerAddress(std::string_view text) {
  std::string_view host = text;
  std::string_view rest;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    if (!HasOnly(host, ":.%_-")) return false;  // % begins the interface of a link-local address
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
    if (!HasOnly(host, "._-")) return false;
  }
  if (host.empty() || host.size() > kMaxHost) return false;
  if (rest.empty()) return true;
  if (rest[0] != ':') return false;
  const int64_t port = ParseInteger(rest.substr(1)).value_or(0);
  return port >= 1 && port <= 65535;
}

bool IsOwnHost(std::string_view host) {
  const std::string name = absl::AsciiStrToLower(absl::string_view(host.data(), host.size()));
  const std::string_view text = name;
  for (const char* own : {"localhost", "localhost.localdomain", "localhost4", "localhost6",
                          "ip6-localhost", "ip6-loopback", "::1", "::", "0.0.0.0"}) {
    if (text == own) return true;
  }
  const bool is_ipv4 = text.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_ipv4 && text.substr(0, 4) == "127.";
}

}  // namespace ranklog::internal
