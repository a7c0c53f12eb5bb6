#include "service/cli/node/globals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "service/storage/store_reader.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::cli {
namespace {

using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using enum absl::StatusCode;

Globals At(const std::string& dir) { return {.state_dir = dir, .address = ""}; }

TEST(GlobalsTest, CommandRepeatsTheGivenFlags) {
  EXPECT_EQ(Globals().Command("sync"), "ranklog sync");
  EXPECT_EQ(At("/a/b-1").Command("sync RUN"), "ranklog --state-dir /a/b-1 sync RUN");
  EXPECT_EQ(At("/a b's").Command("sync"), "ranklog --state-dir '/a b'\\''s' sync");
  const Globals named{.state_dir = "", .address = "unix:/a/d.sock"};
  EXPECT_EQ(named.Command("doctor"), "ranklog --address unix:/a/d.sock doctor");
}

TEST(GlobalsTest, SilentAddressComesWithRemedy) {
  const TempDir dir;
  const auto error_at = [](const std::string& address) {
    return Globals{.state_dir = "", .address = address}.StateDir().status();
  };
  const std::string address = "unix:" + dir.File("no.sock");
  EXPECT_THAT(error_at(address),
              StatusIs(kUnavailable, EndsWith("; to start one there, run: ranklogd "
                                              "--background --listen " +
                                              address)));
  EXPECT_THAT(error_at("unix:" + dir.File(std::string(110, 'x'))),
              StatusIs(kInvalidArgument, HasSubstr("the kernel accepts at most 107; choose a ")));
}

TEST(GlobalsTest, StoreIsOfferedOnlyInEmptyDirectory) {
  const TempDir dir;
  setenv("RANKLOG_ADDRESS", ("unix:" + dir.File("no.sock")).c_str(), 1);
  const auto error_at = [](const std::string& path) {
    return std::string(At(path).OpenStore().status().message());
  };
  for (const std::string& path : {dir.File("new"), dir.path()}) {
    EXPECT_THAT(At(path).OpenStore(), StatusIs(kNotFound));
    EXPECT_THAT(error_at(path), HasSubstr("or create one here: ranklogd --state-dir " + path));
  }
  std::ofstream(dir.File("thesis.tex")) << "text";
  for (const std::string& path : {dir.path(), dir.File("thesis.tex")}) {
    EXPECT_THAT(error_at(path), HasSubstr("there is no store in " + path));
    EXPECT_THAT(error_at(path), Not(HasSubstr("create one here")));
  }
  unsetenv("RANKLOG_ADDRESS");
}

}  // namespace
}  // namespace ranklog::cli
