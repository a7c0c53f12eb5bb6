// The address of a tracker, as the user gives it.

#ifndef RANKLOG_V1_BASE_URL_H_
#define RANKLOG_V1_BASE_URL_H_

#include <stddef.h>

#include <string>

namespace ranklog::v1 {

// `url` without the user and the password before its host: an address is stored and shown. With an @
// behind the host all before it may be a password; then that @ stays, so that nobody takes what is
// behind it for the host.
inline std::string WithoutUser(std::string url) {
  const size_t at = url.rfind('@');
  if (at == std::string::npos) return url;
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos || scheme > at ? 0 : scheme + 3;
  const bool before_host = url.find_first_of("/?#\\", begin) > at;
  return url.erase(begin, at - begin + (before_host ? 1 : 0));
}

}  // namespace ranklog::v1

#endif  // RANKLOG_V1_BASE_URL_H_
