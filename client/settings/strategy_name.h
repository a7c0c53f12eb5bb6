#ifndef CLIENT_SETTINGS_STRATEGY_NAME_H_
#define CLIENT_SETTINGS_STRATEGY_NAME_H_

#include "ranklog/settings.h"

namespace ranklog::internal {

// The strategy's name in RANKLOG_LOG_STRATEGY.
constexpr const char* Name(LogStrategy strategy) {
  switch (strategy) {
    case LogStrategy::kMain:
      return "main";
    case LogStrategy::kNode:
      return "node";
    case LogStrategy::kAll:
      return "all";
  }
  return "main";
}

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_STRATEGY_NAME_H_
