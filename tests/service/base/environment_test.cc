#include "service/base/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace ranklog {
namespace {

constexpr char kName[] = "RANKLOG_ENVIRONMENT_TEST";

TEST(EnvironmentTest, WhiteSpaceAroundValueIsRemoved) {
  setenv(kName, " \t/a b/c\r\n", 1);
  EXPECT_EQ(EnvironmentVariable(kName), "/a b/c");
}

TEST(EnvironmentTest, EmptyVariableCountsAsUnset) {
  for (const char* value : {"", " \n"}) {
    setenv(kName, value, 1);
    EXPECT_EQ(EnvironmentVariable(kName), "");
  }
  unsetenv(kName);
  EXPECT_EQ(EnvironmentVariable(kName), "");
}

}  // namespace
}  // namespace ranklog
