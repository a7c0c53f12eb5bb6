// A W&B server that is down, refuses, or breaks connections, and a daemon that is killed meanwhile.
// The training does not notice, and every row arrives once. S17, S18, S20, S23, S25.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

void ExpectEveryRowOnce(const FakeWandb::Run& run, int rows) {
  ASSERT_THAT(run.history, SizeIs(rows));
  for (int step = 0; step < rows; ++step) {
    const nlohmann::json row = ParseExtendedJson(run.history[step]);
    ASSERT_EQ(row["_step"], step);
    ASSERT_EQ(row["loss"], step);
  }
}

bool Complete(FakeWandb& wandb, const std::string& run_id) {
  return wandb.WaitForEnd(run_id, absl::Seconds(90));
}

TEST(TrackerTest, TemporaryErrorsLoseNoRow) {
  FakeWandb wandb;
  wandb.Inject({.on = FakeWandb::Fault::On::kGraphql, .times = 1, .code = 500});
  wandb.Inject({.on = FakeWandb::Fault::On::kFileStream, .times = 2, .code = 500});
  wandb.Inject(
      {.on = FakeWandb::Fault::On::kFileStream, .times = 1, .code = 429, .retry_after = "1"});
  // The server acts, then breaks the answer. The daemon cannot know, and sends the same lines
  // again.
  wandb.Inject({.on = FakeWandb::Fault::On::kFileStream, .times = 1, .code = 0, .act = true});
  Node node;
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"500"}, WandbAt(wandb.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(Complete(wandb, "job"));
  EXPECT_THAT(wandb.errors(), IsEmpty());
  ExpectEveryRowOnce(wandb.run("job"), 500);
}

TEST(TrackerTest, LoginPageIsNotADelivery) {
  FakeWandb wandb;
  wandb.Inject({.on = FakeWandb::Fault::On::kFileStream,
                .times = 2,
                .code = 200,
                .body = "<html><title>Please log in</title></html>"});
  Node node;
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"300"}, WandbAt(wandb.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  const auto delivery = [&] {
    const auto all = node.Reader()->Deliveries(node.GetRun("job").id);
    return all.ok() && !all->empty() ? all->front() : model::Delivery();
  };
  ASSERT_TRUE(WaitFor([&] {
    return delivery().delivered_rows > 0 ||
           absl::StrContains(delivery().last_error, "a web page, \"Please log in\"");
  }));
  EXPECT_EQ(delivery().delivered_rows, wandb.run("job").history.size());
  ASSERT_TRUE(Complete(wandb, "job"));
  ExpectEveryRowOnce(wandb.run("job"), 300);
}

TEST(TrackerTest, EndedJobIsDeliveredAfterOutage) {
  auto wandb = std::make_unique<FakeWandb>();
  const int port = wandb->port();
  const std::string url = wandb->url();
  wandb.reset();

  Node node({}, {{"WANDB_API_KEY", std::string(40, 'k')}});
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"300"}, WandbAt(url));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_THAT(rank.Output(), ::testing::HasSubstr("logged 300, durable"));
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  // Undelivered rows survive a restart.
  EXPECT_EQ(node.Terminate(), 0);

  wandb = std::make_unique<FakeWandb>(port);
  node.Start();
  ASSERT_TRUE(Complete(*wandb, "job"));
  EXPECT_THAT(wandb->errors(), IsEmpty());
  ExpectEveryRowOnce(wandb->run("job"), 300);
}

TEST(TrackerTest, RepeatedDaemonKillsDeliverRowsOnce) {
  constexpr int kRows = 60'000;
  FakeWandb wandb;
  // Posts often, so that kills fall between a post, its answer, and the mark in the store.
  Node node({"--transmit-interval", "20ms"}, {{"WANDB_API_KEY", std::string(40, 'k')}});
  node.Start();
  ChildProcess rank =
      node.StartRank("job", 0, 0, 1, 1, {std::to_string(kRows), "0", "100"}, WandbAt(wandb.url()));
  std::mt19937 random(7);
  for (int kill = 0; kill < 10; ++kill) {
    // Waits for a random number of further lines at the tracker, then kills the daemon.
    const size_t lines = wandb.run("job").history.size() + 1 + random() % 3000;
    ASSERT_TRUE(WaitFor([&] {
      return wandb.run("job").history.size() >= std::min<size_t>(lines, kRows) ||
             wandb.run("job").complete;
    })) << "no lines after kill "
        << kill;
    node.Kill();
    node.Start();
  }
  ASSERT_EQ(rank.Wait(absl::Seconds(120)), 0) << rank.Output();
  ASSERT_TRUE(Complete(wandb, "job"));
  EXPECT_THAT(wandb.errors(), IsEmpty());
  ExpectEveryRowOnce(wandb.run("job"), kRows);
}

}  // namespace
}  // namespace ranklog::testing
