// The real daemon removes delivered runs, and nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/node.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr int kRetainedRows = 2000;
constexpr int kRefusedRow = kRetainedRows + 500;  // only a longer run has such a row
// a run is removed ten seconds after its end at the earliest
constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int64_t kKeepBytes = 256 << 10;

class RetentionTest : public ::testing::Test {
 protected:
  ChildProcess StartRun(const std::string& job, std::vector<std::string> args,
                        std::map<std::string, std::string> settings) {
    return node_.StartRank(job, 0, 0, 1, 1, std::move(args), std::move(settings));
  }
  void MakeRun(const std::string& job, int rows, std::map<std::string, std::string> settings) {
    ChildProcess rank = StartRun(job, {std::to_string(rows)}, std::move(settings));
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  }
  std::vector<std::string> Runs() const {
    std::vector<std::string> ids;
    const auto runs = node_.Reader()->Runs();
    if (!runs.ok()) return {runs.status().ToString()};
    for (const model::Run& run : *runs) ids.push_back(run.run_id);
    return ids;
  }
  Finished Ranklog(std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()}};
    options.unset = {"WANDB_API_KEY"};
    return RunToEnd(args, options);
  }

  FakeWandb wandb_;
  const DeadPort dead_{DeadPort::kRefuses};
  Node node_{{"--transmit-interval", "50ms", "--keep-for", "forever", "--keep-bytes",
              absl::StrCat(kKeepBytes)}};
};

TEST_F(RetentionTest, OnlyDeliveredRunsAreRemoved) {
  wandb_.RefuseLines([](const std::string& line) {
    return absl::StrContains(line, absl::StrCat("\"loss\":", kRefusedRow, ","));
  });
  node_.Start();
  const std::map<std::string, std::string> there = WandbAt(wandb_.url());
  const std::string stop = node_.state_dir() + "/stop";
  ChildProcess live = StartRun("live", {"100000", "0", "20000", stop}, there);
  MakeRun("local", kRetainedRows, {{"RANKLOG_DESTINATIONS", "local"}});
  MakeRun("undelivered", kRetainedRows, WandbAt(dead_.url()));
  MakeRun("refused", kRetainedRows + 600, there);
  for (int i = 0; i < 8; ++i) MakeRun(absl::StrCat("delivered-", i), kRetainedRows, there);

  // The runs that must stay already exceed the limit, so all others are removed.
  EXPECT_TRUE(WaitFor([&] { return Runs().size() == 4; }, kPatience));
  EXPECT_THAT(Runs(), UnorderedElementsAre("live", "local", "undelivered", "refused"));
  EXPECT_TRUE(
      WaitFor([&] { return node_.LogCount("of the store are free again") > 0; }, kPatience));
  EXPECT_EQ(node_.Counter("store.removed_runs"), 8u);
  const int64_t used = *node_.Reader()->UsedBytes();
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(wandb_.run(absl::StrCat("delivered-", i)).history, SizeIs(kRetainedRows)) << i;
  }
  EXPECT_THAT(wandb_.errors(), IsEmpty());

  EXPECT_THAT(Ranklog({"runs"}).output,
              AllOf(HasSubstr("undelivered"), Not(HasSubstr("delivered-"))));
  for (const char* command : {"show", "verify"}) {
    const Finished finished = Ranklog({command, "delivered-3"});
    EXPECT_NE(finished.code, 0) << command;
    EXPECT_THAT(finished.output,
                AllOf(HasSubstr("no run is called 'delivered-3'"), Not(HasSubstr("missing"))));
  }
  EXPECT_EQ(Ranklog({"verify", "local"}).code, 0);
  EXPECT_THAT(Ranklog({"status"}).output, HasSubstr("up to 256.0 KiB; 8 removed"));
  const auto status = nlohmann::json::parse(Ranklog({"status", "--json"}).output, nullptr,
                                            /*allow_exceptions=*/false);
  ASSERT_TRUE(status.is_object());
  EXPECT_EQ(status["daemon"]["keep_bytes"], kKeepBytes);
  EXPECT_EQ(status["daemon"]["keep_for_seconds"], nullptr);
  EXPECT_GT(status["store"]["used_bytes"], kKeepBytes);
  EXPECT_LE(status["store"]["used_bytes"], status["store"]["bytes"]);

  // A resumed run continues after the rows that the tracker has, as it would after a lost store.
  std::map<std::string, std::string> resumed = there;
  resumed["RANKLOG_RESUME"] = "allow";
  ChildProcess again = StartRun(
      "delivered-3",
      {std::to_string(kRetainedRows), "0", "0", "none", std::to_string(kRetainedRows)}, resumed);
  ASSERT_EQ(again.Wait(), 0) << again.Output();
  EXPECT_TRUE(WaitFor([&] { return wandb_.run("delivered-3").history.size() == 2 * kRetainedRows; },
                      kPatience));
  EXPECT_THAT(Runs(), Contains("delivered-3"));
  EXPECT_LT(*node_.Reader()->UsedBytes(), used + (1 << 20));

  // A restarted daemon finds no damage.
  node_.Kill();
  node_.Start();
  EXPECT_THAT(Runs(), Contains("live"));
  EXPECT_TRUE(node_.Reader()->Check().ok());
  fclose(fopen(stop.c_str(), "w"));
  ASSERT_EQ(live.Wait(), 0) << live.Output();
  EXPECT_TRUE(WaitFor([&] { return wandb_.run("live").complete; }, kPatience));
}

}  // namespace
}  // namespace ranklog::testing
