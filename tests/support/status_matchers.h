// EXPECT_OK(x), ASSERT_OK(x), ASSERT_OK_AND_ASSIGN(auto y, x), EXPECT_THAT(x, StatusIs(code)),
// IsOkAndHolds(m).

#ifndef TESTS_SUPPORT_STATUS_MATCHERS_H_
#define TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ranklog::testing {

inline const absl::Status& AsStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& AsStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << AsStatus(arg).ToString();
  return AsStatus(arg).ok();
}
MATCHER_P(StatusIs, code, "") {
  *result_listener << AsStatus(arg).ToString();
  return AsStatus(arg).code() == code;
}
MATCHER_P2(StatusIs, code, message, "") {
  *result_listener << AsStatus(arg).ToString();
  return AsStatus(arg).code() == code &&
         ::testing::ExplainMatchResult(message, std::string(AsStatus(arg).message()),
                                       result_listener);
}
MATCHER_P(IsOkAndHolds, matcher, "") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(matcher, *arg, result_listener);
}

}  // namespace ranklog::testing

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::ranklog::testing::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::ranklog::testing::IsOk())
#define RANKLOG_TEST_CONCAT_(a, b) a##b
#define RANKLOG_TEST_CONCAT(a, b) RANKLOG_TEST_CONCAT_(a, b)
#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_(RANKLOG_TEST_CONCAT(status_or_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_(result, declaration, expression) \
  auto result = (expression);                                  \
  ASSERT_OK(result);                                           \
  declaration = *std::move(result)

#endif  // TESTS_SUPPORT_STATUS_MATCHERS_H_
