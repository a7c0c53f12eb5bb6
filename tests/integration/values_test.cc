// Values of every type arrive as they were logged, and a value that cannot be logged costs only
// itself. Both also through the ring of a dead rank. S58.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Ne;
using ::testing::Not;

// The members of the first row, as JSON text in the order of the call.
constexpr char kNumbers[] = R"("loss":0.5,"_custom":7)";
constexpr char kNested[] =
    R"({"a":{"flag":true,"nan":NaN,"key \"x\"\u000a":"y"},"big":9007199254740993})";

std::string FirstRow() {
  return std::string(kNumbers) + R"(,"flag":true,"beyond":9007199254740993,)" +
         R"("least":-9223372036854775808,"most":18446744073709551615,"nested":)" + kNested +
         R"(,"list":[1,2.5,false,"x",null],"null":null)";
}

// The tests look at what one rank has logged: 10 MB.
class ValuesTest : public ::testing::TestWithParam<bool> {
 protected:
  bool dies() const { return GetParam(); }

  void SetUp() override {
    if (logged() != nullptr) return;
    auto job = std::make_unique<Job>();
    if (!dies()) job->node.Start();
    ChildProcess::Options options;
    options.environment = job->node.RankEnvironment("job", 0, 0, 1, 1);
    options.environment["WANDB_BASE_URL"] = job->wandb.url();
    options.environment["WANDB_API_KEY"] = std::string(40, 'k');
    options.environment["RANKLOG_DESTINATIONS"] = "wandb";
    ChildProcess rank({VALUES_RANK, dies() ? "die" : "live"}, options);
    ASSERT_EQ(rank.Wait(), dies() ? -SIGKILL : 0) << rank.Output();
    if (dies()) job->node.Start();
    ASSERT_TRUE(job->wandb.WaitForEnd("job"));
    logged() = std::move(job);
  }
  static void TearDownTestSuite() { jobs_ = {}; }

  const FakeWandb& wandb() { return logged()->wandb; }

  std::string Ranklog(std::vector<std::string> args) {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", logged()->node.state_dir()});
    ChildProcess::Options options;
    options.environment["WANDB_API_KEY"] = std::string(40, 'k');
    const Finished finished = RunToEnd(args, options);
    EXPECT_EQ(finished.code, 0) << finished.output;
    return finished.output;
  }

 private:
  struct Job {
    FakeWandb wandb;
    Node node{{"--transmit-interval", "50ms"}, {{"WANDB_API_KEY", std::string(40, 'k')}}};
  };
  std::unique_ptr<Job>& logged() { return jobs_[dies()]; }

  inline static std::array<std::unique_ptr<Job>, 2> jobs_;
};

TEST_P(ValuesTest, ReachTheTrackerAsTheyAre) {
  EXPECT_THAT(wandb().errors(), IsEmpty());
  const FakeWandb::Run run = wandb().run("job");
  ASSERT_EQ(run.history.size(), 2u);
  EXPECT_THAT(run.history[0], HasSubstr("{" + FirstRow() + ",\"_timestamp\":"));
  EXPECT_THAT(run.history[0], AllOf(HasSubstr("\"_step\":1}"), Not(HasSubstr(":99"))));
  EXPECT_THAT(run.history[1], HasSubstr(R"({"loss":0.25,"nested":{"c":2},"flag":false,)"));
  // As in W&B's package, the summary has the last value of each leaf.
  for (const char* part :
       {R"("most":18446744073709551615)", R"("beyond":9007199254740993)", R"("flag":false)",
        R"("nan":NaN)", R"("c":2)", R"("best":{"most":18446744073709551615,"flag":false})"}) {
    EXPECT_THAT(run.summary, HasSubstr(part));
  }
  for (const char* part :
       {R"("flag":{"value":true})", R"("most":{"value":18446744073709551615})",
        R"("least":{"value":-9223372036854775808})", R"("big":9007199254740993)"}) {
    EXPECT_THAT(run.config, HasSubstr(part));
  }
}

TEST_P(ValuesTest, LargeConfigAndSummaryReachTheTracker) {
  const FakeWandb::Run run = wandb().run("job");
  const std::string text(100000, 'c');
  for (int i = 0; i < 100; ++i) {
    const std::string key = "\"part" + std::to_string(i) + "\":";
    EXPECT_THAT(run.config.find(key + "{\"value\":\"" + text + "\"}"), Ne(std::string::npos))
        << key;
    EXPECT_THAT(run.summary.find(key + "\"" + text + "\""), Ne(std::string::npos)) << key;
  }
  EXPECT_THAT(run.config.find(R"("order":{"value":3})"), Ne(std::string::npos));
  EXPECT_THAT(run.summary.find(R"("order":"later")"), Ne(std::string::npos));
}

TEST_P(ValuesTest, LastCallOfTwoThreadsCounts) {
  const FakeWandb::Run run = wandb().run("job");
  EXPECT_THAT(run.config.find(R"("thread":{"value":"main"})"), Ne(std::string::npos));
  EXPECT_THAT(run.summary.find(R"("thread":"main")"), Ne(std::string::npos));
}

TEST_P(ValuesTest, AreExportedAndVerified) {
  EXPECT_THAT(Ranklog({"export", "job"}),
              AllOf(HasSubstr(FirstRow() + "}\n"), HasSubstr(R"("nested":{"c":2},"flag":false})")));
  EXPECT_THAT(Ranklog({"export", "job", "--raw"}), HasSubstr("\"values\":{" + FirstRow() + "}}\n"));
  const std::vector<std::string> csv =
      absl::StrSplit(Ranklog({"export", "job", "--format", "csv"}), "\r\n");
  EXPECT_EQ(csv.at(0), "_step,_timestamp,loss,_custom,flag,beyond,least,most,nested,list,null");
  EXPECT_THAT(csv.at(1), HasSubstr(",0.5,7,true,9007199254740993,-9223372036854775808,"
                                   "18446744073709551615,\"{\"\"a\"\":{\"\"flag\"\":true,"));
  EXPECT_THAT(csv.at(1), HasSubstr(",\"[1,2.5,false,\"\"x\"\",null]\",null"));
  EXPECT_THAT(Ranklog({"export", "job", "--metric", "flag"}), HasSubstr("\"flag\":true}\n"));
  EXPECT_THAT(Ranklog({"tail", "job", "--no-follow", "--all"}),
              AllOf(HasSubstr("flag true"), HasSubstr("beyond 9007199254740993")));
  Ranklog({"verify", "job"});
}

TEST_P(ValuesTest, LeftOutValuesAreCounted) {
  const json runs = json::parse(Ranklog({"runs", "--json"}), nullptr, /*allow_exceptions=*/false);
  const json& rank = runs[0]["ranks"][0];
  EXPECT_EQ(rank["rows"], 2);
  EXPECT_EQ(rank["lost"], 0);
  EXPECT_EQ(rank["losses"]["values"], 4);
  EXPECT_THAT(Ranklog({"show", "job"}), HasSubstr("4 values left out of rows"));
  EXPECT_THAT(Ranklog({"status"}), HasSubstr("4 values left out of rows"));
}

INSTANTIATE_TEST_SUITE_P(LiveAndDead, ValuesTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "DeadRank" : "LiveRank"; });

}  // namespace
}  // namespace ranklog::testing
