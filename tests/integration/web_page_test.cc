// What a run and the people at its page tell each other, with real programs: alerts, and the request
// to stop. S13.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class WebPageTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }
  // Starts a rank of a job of two.
  ChildProcess Start(int rank) const {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", rank, rank, 2, 2);
    options.environment["RANKLOG_QUIET"] = "0";
    for (const auto& [name, value] : WandbAt(wandb_.url())) options.environment[name] = value;
    return ChildProcess({STOPPING_RANK}, options);
  }

  FakeWandb wandb_;
  Node node_{{"--transmit-interval", "50ms"}};
};

TEST_F(WebPageTest, AlertsReachItAndAStopReachesAllRanks) {
  ChildProcess first = Start(0);
  ChildProcess second = Start(1);
  ASSERT_TRUE(WaitFor([&] { return wandb_.run("job").alerts.size() == 2; })) << node_.Log();
  ASSERT_TRUE(WaitFor([&] { return !wandb_.run("job").history.empty(); })) << node_.Log();
  wandb_.Tamper("job", [](FakeWandb::Run& run) { run.stopped = true; });
  EXPECT_EQ(first.Wait(), 0) << first.Output();
  EXPECT_EQ(second.Wait(), 0) << second.Output();
  ASSERT_TRUE(WaitFor([&] { return wandb_.run("job").complete; })) << node_.Log();
  const FakeWandb::Run run = wandb_.run("job");
  std::set<std::string> titles;
  for (const nlohmann::json& alert : run.alerts) {
    titles.insert(alert["title"].get<std::string>());
    EXPECT_EQ(alert["text"], "two\nlines");
    EXPECT_EQ(alert["severity"], "WARN");
    EXPECT_EQ(alert["waitDuration"], 60000);
  }
  EXPECT_THAT(titles, ElementsAre("rank 0 begins", "rank 1 begins"));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(first.Output(), HasSubstr("the run was asked to stop on its web page\n"));
  EXPECT_THAT(second.Output(), Not(HasSubstr("asked to stop")));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  for (const char* const command : {"verify", "show", "dead"}) {
    ChildProcess::Options options;
    options.environment = WandbAt(wandb_.url());
    const Finished finished =
        RunToEnd({RANKLOG_CLI, command, "job", "--state-dir", node_.state_dir()}, options);
    EXPECT_EQ(finished.code, 0) << command << ": " << finished.output;
  }
}

}  // namespace
}  // namespace ranklog::testing
