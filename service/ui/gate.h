// Decides which requests the local page answers.

#ifndef SERVICE_UI_GATE_H_
#define SERVICE_UI_GATE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::ui {

// What the gate reads of a request. Absent headers are empty.
struct Visit {
  absl::string_view method;
  absl::string_view host;        // header Host
  absl::string_view cookie;      // header Cookie
  absl::string_view fetch_site;  // header Sec-Fetch-Site, which browsers send
  absl::string_view token;       // parameter of the URL
  bool page = false;             // it is for the page itself, not for data or a script
};

enum class Verdict {
  kPass,
  kSignIn,       // the URL has the token: set the cookie
  kWrongMethod,  // 405: there is no request that changes anything
  kWrongHost,    // 403: the name is not one of this machine (DNS rebinding)
  kWrongSite,    // 403: a script of another origin asks
  kNoToken,      // 403: another user, or a browser without the cookie
};

class Gate {
 public:
  // The cookie's name contains the port, because browsers send cookies to all ports of a host.
  Gate(std::string token, int port);

  // Pure; call it from any thread.
  Verdict Judge(const Visit& visit) const;

  // The value of Set-Cookie that lets a browser in.
  std::string SetCookie() const;
  const std::string& token() const { return token_; }

 private:
  const std::string token_;
  const std::string cookie_;  // NAME=VALUE
};

// 128 random bits of the kernel, as hexadecimal digits.
std::string NewToken();

}  // namespace ranklog::ui

#endif  // SERVICE_UI_GATE_H_
