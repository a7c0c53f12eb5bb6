// Macros that return errors to the caller: RETURN_IF_ERROR(x); ASSIGN_OR_RETURN(auto y, x).

#ifndef SERVICE_BASE_STATUS_MACROS_H_
#define SERVICE_BASE_STATUS_MACROS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                                                              \
  do {                                                                                           \
    if (absl::Status ranklog_status = (expression); !ranklog_status.ok()) return ranklog_status; \
  } while (false)

#define RANKLOG_CONCAT_(a, b) a##b
#define RANKLOG_CONCAT(a, b) RANKLOG_CONCAT_(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_(RANKLOG_CONCAT(ranklog_status_or_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return result.status();                \
  declaration = *std::move(result)

#endif  // SERVICE_BASE_STATUS_MACROS_H_
