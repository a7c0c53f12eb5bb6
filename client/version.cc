#include "ranklog/c.h"

const char* ranklog_version() noexcept { return "ranklog " RANKLOG_VERSION RANKLOG_STATIC_PARTS; }
