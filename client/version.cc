#include "ranklog/version.h"

namespace ranklog {

const char* Version() noexcept { return "ranklog " RANKLOG_VERSION RANKLOG_STATIC_PARTS; }

}  // namespace ranklog
