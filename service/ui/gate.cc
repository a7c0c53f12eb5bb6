#include "service/ui/gate.h"

#include <sys/random.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ranklog::ui {
namespace {

// Any port, because `ssh -L` may forward another one.
bool NamesThisMachine(absl::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon != absl::string_view::npos && !absl::EndsWith(host, "]")) {
    const absl::string_view port = host.substr(colon + 1);
    if (port.empty() || port.size() > 5) return false;
    for (const char c : port) {
      if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
    }
    host = host.substr(0, colon);
  }
  return host == "127.0.0.1" || host == "[::1]" || absl::EqualsIgnoreCase(host, "localhost");
}

// Takes the same time wherever the texts differ.
bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

Gate::Gate(std::string token, int port)
    : token_(std::move(token)), cookie_(absl::StrCat("ranklog_", port, "=", token_)) {}

Verdict Gate::Judge(const Visit& visit) const {
  if (!NamesThisMachine(visit.host)) return Verdict::kWrongHost;
  if (visit.method != "GET" && visit.method != "HEAD") return Verdict::kWrongMethod;
  if (visit.page && SameSecret(visit.token, token_)) return Verdict::kSignIn;
  // A page of another origin may open this one, but its scripts may not read from it.
  if (!visit.page && !visit.fetch_site.empty() && visit.fetch_site != "same-origin" &&
      visit.fetch_site != "none") {
    return Verdict::kWrongSite;
  }
  for (const absl::string_view part : absl::StrSplit(visit.cookie, ';')) {
    if (SameSecret(absl::StripAsciiWhitespace(part), cookie_)) return Verdict::kPass;
  }
  return Verdict::kNoToken;
}

std::string Gate::SetCookie() const {
  return absl::StrCat(cookie_, "; Path=/; HttpOnly; SameSite=Strict");
}

std::string NewToken() {
  char bytes[16];
  size_t got = 0;
  while (got < sizeof(bytes)) {  // a signal may interrupt it
    const ssize_t now = getrandom(bytes + got, sizeof(bytes) - got, 0);
    if (now > 0) got += static_cast<size_t>(now);
  }
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

}  // namespace ranklog::ui
