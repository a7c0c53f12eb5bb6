// Whose key a run is delivered with, and what happens without one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

bool IsComplete(FakeWandb& wandb, const std::string& run_id) {
  return wandb.WaitFor(
      [&](const std::map<std::string, FakeWandb::Run>& runs) {
        return runs.count(run_id) != 0 && runs.at(run_id).complete;
      },
      absl::Seconds(60));
}

// The daemon came only after the job, which had the key.
TEST(KeysTest, ARunWithoutAKeyWaitsAndIsNamed) {
  const std::string key(40, 'k');
  FakeWandb wandb;
  wandb.RequireKey(key);
  Node node;
  auto there = WandbAt(wandb.url());
  there["RANKLOG_FINISH_TIMEOUT_MS"] = "10";
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"300"}, there);
  EXPECT_EQ(rank.Wait(), 3) << rank.Output();  // all is in the ring

  const std::map<std::string, std::string> no_key = {
      {"HOME", node.state_dir()}, {"XDG_CONFIG_HOME", node.state_dir()}, {"NETRC", "/nonexistent"}};
  node.StartWith(no_key);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  const auto deliveries = [&] { return node.Reader()->Deliveries(node.GetRun("job").id).value(); };
  ASSERT_THAT(deliveries(), SizeIs(1));
  EXPECT_EQ(deliveries().front().kind, "wandb");
  ASSERT_TRUE(WaitFor([&] { return !deliveries().front().last_error.empty(); }));
  ChildProcess::Options options;
  options.environment = no_key;
  options.unset = {"WANDB_API_KEY"};
  for (const char* command : {"status", "doctor"}) {
    const Finished finished =
        RunToEnd({RANKLOG_CLI, command, "--state-dir", node.state_dir()}, options);
    EXPECT_THAT(finished.output, HasSubstr("no API key for 127.0.0.1")) << command;
  }

  const std::string path = node.state_dir() + "/credentials";
  std::ofstream(path) << "";
  chmod(path.c_str(), 0600);
  std::ofstream(path) << "machine 127.0.0.1:" << wandb.port() << " login user password " << key;
  ASSERT_TRUE(IsComplete(wandb, "job"));
  EXPECT_THAT(wandb.run("job").history, SizeIs(300));
}

TEST(KeysTest, EachJobIsDeliveredWithItsOwn) {
  FakeWandb wandb;
  Node node({"--wandb-transmit-interval", "20ms"});
  node.Start();
  const auto with_key = [&](char c) {
    return std::map<std::string, std::string>{{"WANDB_BASE_URL", wandb.url()},
                                              {"WANDB_API_KEY", std::string(40, c)}};
  };
  ChildProcess one = node.StartRank("one", 0, 0, 1, 1, {"1000000", "0", "2000"}, with_key('1'));
  ASSERT_TRUE(WaitFor([&] { return wandb.run("one").history.size() > 10; }));
  ChildProcess two = node.StartRank("two", 0, 0, 1, 1, {"10"}, with_key('2'));
  EXPECT_EQ(two.Wait(), 0) << two.Output();
  ASSERT_TRUE(IsComplete(wandb, "two"));
  const size_t lines = wandb.run("one").history.size();
  ASSERT_TRUE(WaitFor([&] { return wandb.run("one").history.size() > lines + 10; }));
  one.Kill();
  ASSERT_TRUE(IsComplete(wandb, "one"));
  for (const FakeWandb::Request& request : wandb.requests()) {
    for (const char job : {'1', '2'}) {
      const std::string run = job == '1' ? "one" : "two";
      if (!absl::StrContains(request.path, "/" + run + "/") &&
          !absl::StrContains(request.body, absl::StrCat("\"name\":\"", run, "\""))) {
        continue;
      }
      EXPECT_EQ(request.authorization, "Basic " + absl::Base64Escape("api:" + std::string(40, job)))
          << request.path << " " << request.operation;
    }
  }
}

}  // namespace
}  // namespace ranklog::testing
