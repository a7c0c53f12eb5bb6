#ifndef RANKLOG_VERSION_H_
#define RANKLOG_VERSION_H_

#include "ranklog/c.h"
#include "ranklog/compiler.h"

namespace ranklog {
inline namespace RANKLOG_LAYOUT {

// The version of libranklog.so, not that of the headers; see ranklog_version().
inline const char* Version() noexcept { return ranklog_version(); }

}  // namespace RANKLOG_LAYOUT
}  // namespace ranklog

#endif  // RANKLOG_VERSION_H_
