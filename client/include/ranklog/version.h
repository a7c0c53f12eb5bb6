#ifndef RANKLOG_VERSION_H_
#define RANKLOG_VERSION_H_

#include "ranklog/export.h"

namespace ranklog {

// The version of libranklog.so, such as "ranklog 0.1.0". A self-contained library adds the versions
// of the source packages that it contains: "ranklog 0.1.0 with abseil 20220623.1-1+deb12u2, ...,
// zlib 1:1.2.13.dfsg-1". The string is never freed.
RANKLOG_EXPORT const char* Version() noexcept;

}  // namespace ranklog

#endif  // RANKLOG_VERSION_H_
