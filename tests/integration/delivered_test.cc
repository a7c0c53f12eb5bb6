// RANKLOG_FINISH=delivered: the end of a run waits until its tracker has all of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kDeliveredRows = 100;

class DeliveredTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  ChildProcess Start(const std::string& job, const std::string& finish,
                     std::map<std::string, std::string> extra = {}) {
    extra.merge(WandbAt(wandb_->url()));
    extra["RANKLOG_FINISH"] = finish;
    extra["RANKLOG_QUIET"] = "0";
    return node_.StartRank(job, 0, 0, 1, 1, {std::to_string(kDeliveredRows)}, extra);
  }

  // Starts a rank of 200 rows, under the job `how`; see ending_rank.cc.
  ChildProcess StartEnding(const std::string& how, const std::string& finish) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment(how, 0, 0, 1, 1);
    for (const auto& [name, value] : WandbAt(wandb_->url())) options.environment[name] = value;
    options.environment["RANKLOG_FINISH"] = finish;
    options.environment["RANKLOG_QUIET"] = "0";
    return ChildProcess({ENDING_RANK, how}, options);
  }

  std::unique_ptr<FakeWandb> wandb_ = std::make_unique<FakeWandb>();
  Node node_;
};

TEST_F(DeliveredTest, TrackerHasRunWhenRankEnds) {  // S43
  ChildProcess rank = Start("job", "delivered");
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_TRUE(wandb_->run("job").complete);
  EXPECT_THAT(wandb_->run("job").history, SizeIs(kDeliveredRows));
  EXPECT_THAT(rank.Output(),
              HasSubstr("all 100 rows of this rank are durable and delivered; see http://"));
}

// One destination has the run at once, and the other cannot be reached.
TEST_F(DeliveredTest, EveryDestinationMustHaveTheRun) {
  const DeadPort dead(DeadPort::kRefuses);
  ChildProcess rank =
      Start("job", "delivered:3s",
            {{"RANKLOG_DESTINATIONS", "wandb,mlflow"}, {"MLFLOW_TRACKING_URI", dead.url()}});
  rank.Wait();
  EXPECT_TRUE(wandb_->run("job").complete);
  EXPECT_THAT(rank.Output(), Not(HasSubstr("and delivered")));
}

TEST_F(DeliveredTest, SlowTrackerWaitReportsProgress) {
  wandb_->Inject({.on = FakeWandb::Fault::On::kFileStream,
                  .times = 1,
                  .code = 200,
                  .act = true,
                  .delay = absl::Seconds(4)});
  ChildProcess rank = Start("job", "delivered:1m");
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_TRUE(wandb_->run("job").complete);
  EXPECT_THAT(rank.Output(), HasSubstr("run job waits until the tracker has it"));
}

TEST_F(DeliveredTest, WaitForAbsentTrackerTimesOut) {
  const int port = wandb_->port();
  const std::string url = wandb_->url();
  wandb_.reset();
  const absl::Time start = absl::Now();
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kDeliveredRows)},
                                      {{"WANDB_BASE_URL", url},
                                       {"WANDB_API_KEY", std::string(40, 'k')},
                                       {"RANKLOG_QUIET", "0"},
                                       {"RANKLOG_FINISH", "delivered:2s"}});
  EXPECT_EQ(rank.Wait(), 3) << rank.Output();
  EXPECT_GE(absl::Now() - start, absl::Seconds(2));
  EXPECT_THAT(rank.Output(), HasSubstr("all 100 rows of this rank are durable, 0 of "));
  wandb_ = std::make_unique<FakeWandb>(port);
  EXPECT_TRUE(wandb_->WaitForEnd("job")) << "the daemon sends the rest";
}

// exit() does not destroy a Run in a function, and destroys a static one too late.
TEST_F(DeliveredTest, ExitWaitsAsFinishDoes) {
  for (const std::string how : {"exit-5", "static", "thread-exit", "busy-exit"}) {
    ChildProcess rank = StartEnding(how, "delivered");
    EXPECT_EQ(rank.Wait(), how == "exit-5" ? 5 : 0) << rank.Output();
    EXPECT_TRUE(wandb_->run(how).complete) << how;
    EXPECT_THAT(wandb_->run(how).history, SizeIs(Ge(200u))) << how;
    EXPECT_THAT(rank.Output(), HasSubstr(" rows of this rank are durable and delivered")) << how;
  }
}

// exit() reports the exit code, so the daemon need not wait for the end of the process.
TEST_F(DeliveredTest, ExitTakesNoLongerThanFinish) {
  // that a destroyed run waits for its process
  constexpr absl::Duration kLastMoments = absl::Seconds(2);
  absl::Duration shortest = absl::InfiniteDuration();
  for (int i = 0; i < 5 && shortest >= kLastMoments; ++i) {
    const absl::Time start = absl::Now();
    ChildProcess rank = StartEnding("exit-5", "delivered");
    EXPECT_EQ(rank.Wait(), 5) << rank.Output();
    shortest = std::min(shortest, absl::Now() - start);
  }
  EXPECT_LT(shortest, kLastMoments);
  EXPECT_EQ(node_.GetRun("exit-5").state, model::RunState::kFailed);
  EXPECT_EQ(node_.GetRun("exit-5").exit_code, 5);
}

TEST_F(DeliveredTest, ExitWaitEndsAtItsTimeout) {
  wandb_->Inject({.on = FakeWandb::Fault::On::kFileStream, .times = 1000, .code = 503});
  const absl::Time start = absl::Now();
  ChildProcess rank = StartEnding("exit-0", "delivered:2s");
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_GE(absl::Now() - start, absl::Seconds(2));
  EXPECT_THAT(rank.Output(), HasSubstr("all 200 rows of this rank are durable, 0 "));

  ChildProcess durable = StartEnding("exit-5", "durable");
  EXPECT_EQ(durable.Wait(), 5) << durable.Output();
  EXPECT_THAT(durable.Output(), Not(HasSubstr("of this rank")));
}

TEST_F(DeliveredTest, LocalRunDoesNotWait) {
  ChildProcess rank = Start("job", "delivered", {{"RANKLOG_DESTINATIONS", "local"}});
  EXPECT_EQ(rank.Wait(absl::Seconds(30)), 0) << rank.Output();
  EXPECT_THAT(rank.Output(), Not(HasSubstr("delivered")));
}

}  // namespace
}  // namespace ranklog::testing
