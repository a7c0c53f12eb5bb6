// Cleans a tracker's address that the user gave.

#ifndef RANKLOG_V1_BASE_URL_H_
#define RANKLOG_V1_BASE_URL_H_

#include <stddef.h>

#include <string>

namespace ranklog::v1 {

// Returns `url` without the user and the password before its host, because an address is stored and
// shown. If an @ comes after the host, everything before it may be a password. Then that @ stays,
// so that nobody takes the text after it for the host.
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
