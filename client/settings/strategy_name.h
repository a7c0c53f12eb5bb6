#ifndef CLIENT_SETTINGS_STRATEGY_NAME_H_
#define CLIENT_SETTINGS_STRATEGY_NAME_H_

#include "ranklog/settings.h"

namespace ranklog::internal {

// Whether it is one of the enum's values: a program may cast any number.
constexpr bool IsKnown(LogStrategy strategy) {
  return strategy == LogStrategy::kMain || strategy == LogStrategy::kNode ||
         strategy == LogStrategy::kAll;
}

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
