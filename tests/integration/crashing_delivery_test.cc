// A delivery that crashes the daemon at every start is set apart after two crashes, and named. The
// other runs are delivered, and none of its rows is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kRowsOfEach = 100;

class CrashingDeliveryTest : public ::testing::Test {
 protected:
  // Two jobs ended while the tracker was away, "bad" before "good". No daemon runs any more.
  void SetUp() override {
    auto tracker = std::make_unique<FakeWandb>();
    const int port = tracker->port();
    const std::string url = tracker->url();
    tracker.reset();
    node_.Start();
    for (const char* job : {"bad", "good"}) {
      ChildProcess rank =
          node_.StartRank(job, 0, 0, 1, 1, {std::to_string(kRowsOfEach)}, WandbAt(url));
      ASSERT_EQ(rank.Wait(), 0) << rank.Output();
      ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(job); }));
    }
    ASSERT_EQ(node_.Terminate(), 0);
    wandb_ = std::make_unique<FakeWandb>(port);
    crash_ = {
        {"RANKLOG_DIE_AT", absl::StrCat("deliver ", node_.GetRun("bad").id, ":1:", int{SIGSEGV})}};
  }

  void ExpectCrash() { EXPECT_EQ(node_.daemon().Wait(absl::Seconds(60)), -SIGSEGV); }

  Finished Ranklog(std::vector<std::string> args,
                   std::map<std::string, std::string> environment = {}) const {
    ChildProcess::Options options;
    options.environment = std::move(environment);
    options.environment["WANDB_API_KEY"] = std::string(40, 'k');
    options.environment["RANKLOG_ADDRESS"] = node_.address();
    options.unset = {"RANKLOG_STATE_DIR"};
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    return RunToEnd(args, options);
  }

  void ExpectDelivered(const std::string& job) {
    EXPECT_TRUE(wandb_->WaitForEnd(job));
    EXPECT_THAT(wandb_->run(job).history, SizeIs(kRowsOfEach));
    EXPECT_THAT(wandb_->errors(), IsEmpty());
  }

  Node node_{{}, {{"WANDB_API_KEY", std::string(40, 'k')}}};
  std::unique_ptr<FakeWandb> wandb_;
  std::map<std::string, std::string> crash_;
};

TEST_F(CrashingDeliveryTest, IsSetApartWhileOthersContinue) {
  for (int crash = 0; crash < 2; ++crash) {
    node_.StartWith(crash_);
    ExpectCrash();
  }
  node_.StartWith(crash_);
  ExpectDelivered("good");
  EXPECT_EQ(node_.daemon().Wait(absl::ZeroDuration()), absl::nullopt) << "it runs";
  EXPECT_EQ(wandb_->runs().count("bad"), 0u);

  // Every command that shows runs names it, with the reason and the remedy.
  const auto named = AllOf(HasSubstr("test:bad"), HasSubstr("set apart"), HasSubstr("SIGSEGV"),
                           HasSubstr("ranklog sync test:bad"));
  EXPECT_THAT(node_.Log(), named);
  EXPECT_THAT(Ranklog({"status"}).output, named);
  const Finished doctor = Ranklog({"doctor"});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_THAT(doctor.output, named);
  const Finished verify = Ranklog({"verify", "bad"});
  EXPECT_EQ(verify.code, 1);
  EXPECT_THAT(verify.output, named);
  EXPECT_THAT(Ranklog({"runs"}).output, HasSubstr("wandb 0 +100 (set apart"));
  const auto runs = nlohmann::json::parse(Ranklog({"runs", "--json"}).output);
  EXPECT_EQ(runs.at(1).at("run_id"), "bad");
  EXPECT_EQ(runs.at(1).at("destinations").at(0).at("set_apart"), true);
  EXPECT_EQ(runs.at(0).at("destinations").at(0).at("set_apart"), false);
  EXPECT_EQ(node_.Counter("deliver.set_apart"), 1u);
  // sync does not wait for it, and does not report success.
  const Finished all = Ranklog({"sync", "--timeout", "60s"});
  EXPECT_EQ(all.code, 1);
  EXPECT_THAT(all.output, named);

  // On request it is tried once. The daemon crashes again, and then leaves it alone.
  std::thread sync([&] { EXPECT_EQ(Ranklog({"sync", "bad"}).code, 1); });
  ExpectCrash();
  node_.StartWith(crash_);
  sync.join();
  EXPECT_EQ(node_.daemon().Wait(absl::ZeroDuration()), absl::nullopt) << "it runs";

  // An orderly stop changes nothing. Once the fault is gone, it is delivered on request.
  ASSERT_EQ(node_.Terminate(), 0);
  node_.Start();
  EXPECT_EQ(node_.Counter("deliver.set_apart"), 1u);
  const Finished again = Ranklog({"sync", "bad"});
  EXPECT_EQ(again.code, 0) << again.output;
  ExpectDelivered("bad");
  EXPECT_EQ(Ranklog({"verify", "bad"}).code, 0);
}

// `ranklog sync` delivers without a daemon, and the same run crashes it.
TEST_F(CrashingDeliveryTest, SyncSetsRunApartLikeDaemon) {
  for (int crash = 0; crash < 2; ++crash) {
    EXPECT_EQ(Ranklog({"sync"}, crash_).code, -SIGSEGV);
  }
  const Finished all = Ranklog({"sync"}, crash_);
  EXPECT_EQ(all.code, 1) << "not all is delivered";
  EXPECT_THAT(all.output, HasSubstr("ranklog sync test:bad"));
  ExpectDelivered("good");
  EXPECT_EQ(Ranklog({"sync", "bad"}, crash_).code, -SIGSEGV);
  EXPECT_EQ(Ranklog({"sync", "bad"}).code, 0);
  ExpectDelivered("bad");
}

}  // namespace
}  // namespace ranklog::testing
