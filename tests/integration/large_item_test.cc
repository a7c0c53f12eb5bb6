// An item that is too large for any ring arrives through a file of the state directory, whoever dies
// in between.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/node.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kBytes = 40'000'000;  // more than a ring takes

class LargeItemTest : public ::testing::Test {
 protected:
  // Starts a rank, and waits until the daemon has its first row.
  void StartRank(const std::string& then, size_t bytes = kBytes) {
    ChildProcess::Options options;
    options.environment = node_->RankEnvironment("job", 0, 0, 1, 1);
    options.environment["RANKLOG_QUIET"] = "0";
    rank_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{LARGE_ITEM_RANK, std::to_string(bytes), then, go_}, options);
    ASSERT_TRUE(Says("ready")) << rank_->Output();
  }
  void Go() { std::ofstream go(go_); }
  bool Says(const std::string& text) {
    return WaitFor([&] { return rank_->Output().find(text) != std::string::npos; });
  }
  json Ranklog(std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--json", "--state-dir", node_->state_dir()});
    ChildProcess::Options options;
    options.environment["RANKLOG_ADDRESS"] = node_->address();
    const Finished finished = RunToEnd(args, options);
    return json::parse(finished.output, nullptr, /*allow_exceptions=*/false);
  }
  void ExpectArrived(int order) const {
    const json config = Ranklog({"show", "job"})["config"];
    ASSERT_TRUE(config.is_object()) << config;
    EXPECT_TRUE(config["large"] == std::string(kBytes, 'x'));
    EXPECT_EQ(config["order"], order);
    EXPECT_TRUE(std::filesystem::is_empty(node_->state_dir() + "/content"));
    EXPECT_EQ(Ranklog({"runs"})[0]["ranks"][0]["lost_items"], 0);
  }

  TempDir dir_;
  const std::string go_ = dir_.File("go");
  std::unique_ptr<Node> node_ = std::make_unique<Node>();
  std::unique_ptr<ChildProcess> rank_;
};

TEST_F(LargeItemTest, ArrivesInOrder) {
  node_->Start();
  StartRank("finish");
  Go();
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(), HasSubstr("taken"));
  ExpectArrived(3);
}

TEST_F(LargeItemTest, SurvivesDeathOfRankAndDaemon) {
  node_->Start();
  StartRank("die");
  node_->daemon().Signal(SIGSTOP);
  Go();
  EXPECT_EQ(rank_->Wait(), -SIGKILL);
  EXPECT_THAT(rank_->Output(), HasSubstr("taken"));
  EXPECT_FALSE(std::filesystem::is_empty(node_->state_dir() + "/content"));
  node_->Kill();
  node_->Start();
  ASSERT_TRUE(WaitFor([&] { return node_->RunHasEnded("job"); }));
  ExpectArrived(2);
}

TEST_F(LargeItemTest, SurvivesDeathOfDaemonWhileTheRankLives) {
  node_->Start();
  StartRank("finish");
  node_->daemon().Signal(SIGSTOP);
  Go();
  ASSERT_TRUE(Says("taken")) << rank_->Output();
  node_->Kill();
  node_->Start();
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  ExpectArrived(3);
}

// A rank died between the file and its reference. Its file counts until it is removed.
TEST_F(LargeItemTest, LeftFileIsShown) {
  node_->Start();
  std::ofstream(node_->state_dir() + "/content/left") << std::string(5 << 20, 'x');
  EXPECT_EQ(Ranklog({"status"})["content"]["bytes"], 5 << 20);
  ChildProcess::Options options;
  options.environment["RANKLOG_ADDRESS"] = node_->address();
  EXPECT_THAT(RunToEnd({RANKLOG_CLI, "status", "--state-dir", node_->state_dir()}, options).output,
              HasSubstr("content 5.0 MiB of large items of 4.0 GiB in "));
}

TEST_F(LargeItemTest, ReachedQuotaIsReportedAndCounted) {
  node_ = std::make_unique<Node>(std::vector<std::string>{"--content-bytes", "1MiB"});
  node_->Start();
  StartRank("finish");
  Go();
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(),
              AllOf(HasSubstr("refused"),
                    HasSubstr("1 call of Config, Summary, DefineMetric, LogArtifact or Save"),
                    HasSubstr("and a ring takes at most 32 MiB; "),
                    HasSubstr("raise --content-bytes of ranklogd")));
  const json config = Ranklog({"show", "job"})["config"];
  EXPECT_EQ(config["order"], 3);
  EXPECT_FALSE(config.contains("large"));
  EXPECT_EQ(Ranklog({"runs"})[0]["ranks"][0]["refused_items"], 1);
  EXPECT_EQ(Ranklog({"status"})["content"]["quota"], 1 << 20);
}

}  // namespace
}  // namespace ranklog::testing
