#ifndef RANKLOG_VERSION_H_
#define RANKLOG_VERSION_H_

#include "ranklog/export.h"

namespace ranklog {

// The version of libranklog.so, e.g. "ranklog 0.1.0". A self-contained one adds the source packages
// of what it holds: "ranklog 0.1.0 with abseil 20220623.1-1+deb12u2, ..., zlib 1:1.2.13.dfsg-1".
// Lives for ever.
RANKLOG_EXPORT const char* Version() noexcept;

}  // namespace ranklog

#endif  // RANKLOG_VERSION_H_
