// The daemon's health service, queried by the client of the gRPC project. S38.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::StartsWith;

class HealthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Finished made = RunToEnd({VENV, "grpc-health-1.62.3", "grpcio-health-checking==1.62.3"},
                                   {}, absl::Minutes(3));
    const std::vector<std::string> lines =
        absl::StrSplit(absl::StripAsciiWhitespace(made.output), '\n');
    python_ = lines.back();  // pip may print warnings before
    SKIP_WITHOUT(made.code != 77, "grpcio-health-checking");
    ASSERT_EQ(made.code, 0) << made.output;
  }

  std::vector<std::string> Command(const std::string& what, const std::string& service) const {
    return {python_, HEALTH_CLIENT, what, node_.address(), service};
  }
  std::string Check(const std::string& service) const {
    return std::string(absl::StripAsciiWhitespace(RunToEnd(Command("check", service)).output));
  }

  Node node_;
  std::string python_;
};

TEST_F(HealthTest, DaemonAndItsServicesServe) {
  node_.Start();
  EXPECT_EQ(Check(""), "SERVING");
  EXPECT_EQ(Check("ranklog.v1.Ingest"), "SERVING");
  EXPECT_EQ(Check("ranklog.v1.Control"), "SERVING");
  EXPECT_EQ(Check("somebody.Else"), "NOT_FOUND");
}

TEST_F(HealthTest, FullDiskReportsNotServing) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(node_.state_dir(), "64m");
  ASSERT_TRUE(disk.mounted());
  node_.Start();
  ASSERT_EQ(Check(""), "SERVING");
  const std::string filler = node_.state_dir() + "/filler";
  {
    std::ofstream file(filler);
    const std::string block(1 << 20, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  const ChildProcess watch(Command("watch", "ranklog.v1.Ingest"));
  ASSERT_TRUE(WaitFor([&] { return absl::EndsWith(watch.Output(), "NOT_SERVING\n"); }));
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("ranklog.v1.Control"), "SERVING");
  std::filesystem::remove(filler);
  ASSERT_TRUE(WaitFor([&] { return absl::EndsWith(watch.Output(), "\nSERVING\n"); }));
}

TEST_F(HealthTest, WatchersSeeTheDaemonStop) {
  node_.Start();
  ChildProcess watch(Command("watch", ""));
  ASSERT_TRUE(WaitFor([&] { return watch.Output() == "SERVING\n"; }));
  EXPECT_EQ(node_.Terminate(), 0);
  EXPECT_EQ(watch.Wait(), 0);
  EXPECT_THAT(watch.Output(), StartsWith("SERVING\nNOT_SERVING\n"));
}

}  // namespace
}  // namespace ranklog::testing
