// A W&B server comes back after a long outage. The backlogs drain in parallel, within its limits,
// the oldest run first, and live runs do not wait for that. A server that hangs delays only its own
// runs. S17, S18.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "tests/integration/node.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kBacklogs = 8;
constexpr int kOutageRows = 2000;  // per backlog
constexpr int kWorkers = 3;        // of the daemon for one server, so as many requests at once
constexpr int kLimit = 5;          // requests in each window
constexpr absl::Duration kWindow = absl::Milliseconds(500);

std::string Backlog(int n) { return absl::StrCat("old-", n); }

void ExpectEveryRowOnce(const FakeWandb::Run& run, uint64_t rows) {
  ASSERT_THAT(run.history, SizeIs(rows)) << run.run_id;
  for (uint64_t step = 0; step < rows; ++step) {
    ASSERT_EQ(ParseExtendedJson(run.history[step])["loss"], step) << run.run_id;
  }
}

class OutageTest : public ::testing::Test {
 protected:
  OutageTest() { node_.Start(); }

  // Makes a job that ended before its tracker was there.
  void MakeBacklog(int n) {
    ChildProcess rank =
        node_.StartRank(Backlog(n), 0, 0, 1, 1, {std::to_string(kOutageRows)}, there_);
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(Backlog(n)); }));
  }
  ChildProcess StartLiveRank(const std::string& job) {
    return node_.StartRank(job, 0, 0, 1, 1, {"1000000", "0", "2000"}, there_);
  }
  void ServerComesBack() {
    const int port = away_->number();
    away_.reset();
    wandb_ = std::make_unique<FakeWandb>(port);
    wandb_->LimitRate(kLimit, kWindow);
  }
  bool AllComplete(const std::vector<std::string>& ids) {
    return wandb_->WaitFor(
        [&](const std::map<std::string, FakeWandb::Run>& runs) {
          return std::all_of(ids.begin(), ids.end(), [&](const std::string& id) {
            return runs.count(id) != 0 && runs.at(id).complete;
          });
        },
        absl::Seconds(90));
  }

  std::unique_ptr<DeadPort> away_ = std::make_unique<DeadPort>(DeadPort::kRefuses);
  const std::map<std::string, std::string> there_ = WandbAt(away_->url());
  Node node_{{"--transmit-interval", "100ms"}, {{"WANDB_API_KEY", std::string(40, 'k')}}};
  std::unique_ptr<FakeWandb> wandb_;
};

// What the server saw, if it handles one request after the other.
struct Drain {
  explicit Drain(const std::vector<FakeWandb::Request>& requests) {
    for (const FakeWandb::Request& request : requests) {
      if (request.code == 429) ++refused;
      if (request.code != 200) continue;
      ++accepted;
      const size_t run_end = request.path.rfind("/file_stream");
      if (run_end == std::string::npos) continue;
      const size_t run = request.path.rfind('/', run_end - 1) + 1;
      const std::string id = request.path.substr(run, run_end - run);
      if (absl::StartsWith(id, "old-")) {
        if (absl::StrContains(request.body, R"("complete":true)")) ended.push_back(id);
      } else if (absl::StrContains(request.body, "wandb-history.jsonl") && !ended.empty() &&
                 ended.size() < kBacklogs) {
        ++live_posts[id];
      }
    }
  }

  int accepted = 0;
  int refused = 0;
  std::vector<std::string> ended;  // the backlogs, in the order of their ends
  // posts with rows, between the first of these ends and the last
  std::map<std::string, int> live_posts;
};

TEST_F(OutageTest, BacklogsDrainWhileLiveRunsDeliver) {
  for (int n = 0; n < kBacklogs; ++n) MakeBacklog(n);
  const std::vector<std::string> live = {"live-a", "live-b"};
  std::vector<ChildProcess> ranks;
  for (const std::string& job : live) ranks.push_back(StartLiveRank(job));
  for (const std::string& job : live) {
    ASSERT_TRUE(WaitFor([&] { return node_.GetRun(job).rows > 100; }));
  }
  ServerComesBack();
  const absl::Time back = SteadyNow();
  std::vector<std::string> all;
  for (int n = 0; n < kBacklogs; ++n) all.push_back(Backlog(n));
  ASSERT_TRUE(AllComplete(all));
  const absl::Duration drained = SteadyNow() - back;
  const Drain drain(wandb_->requests());
  for (ChildProcess& rank : ranks) rank.Kill();
  ASSERT_TRUE(AllComplete(live));

  printf("%d backlogs of %d rows drained in %.1f s, %d requests, %d of them over the limit\n",
         kBacklogs, kOutageRows, absl::ToDoubleSeconds(drained), drain.accepted, drain.refused);
  // As many requests as workers are in flight at once. So a backlog may overtake only those that
  // began with it.
  ASSERT_THAT(drain.ended, SizeIs(kBacklogs));
  for (int n = 0; n < kBacklogs; ++n) {
    const auto place = std::find(drain.ended.begin(), drain.ended.end(), Backlog(n));
    EXPECT_LT(std::abs(place - drain.ended.begin() - n), kWorkers) << Backlog(n);
  }
  for (const std::string& job : live) EXPECT_GE(drain.live_posts.count(job), 1u) << job;
  // One answer tells all runs how long the limit lasts.
  EXPECT_LE(drain.refused, kWorkers * (drain.accepted / kLimit));

  EXPECT_THAT(wandb_->errors(), IsEmpty());
  for (const std::string& job : all) ExpectEveryRowOnce(wandb_->run(job), kOutageRows);
  for (const std::string& job : live) ExpectEveryRowOnce(wandb_->run(job), node_.GetRun(job).rows);
}

// The servers answer queries, but take rows without ever answering.
TEST(HangingTrackerTest, TwoHangingServersDelayNoOther) {
  FakeWandb hanging[2];
  for (FakeWandb& server : hanging) {
    server.Inject(
        {.on = FakeWandb::Fault::On::kFileStream, .times = 1000, .delay = absl::Hours(1)});
  }
  FakeWandb working;
  Node node({}, {{"WANDB_API_KEY", std::string(40, 'k')}});
  node.Start();
  const auto run_job = [&](const std::string& job, const std::string& url) {
    ChildProcess rank = node.StartRank(job, 0, 0, 1, 1, {"10"}, WandbAt(url));
    EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  };
  const auto posts = [&](const FakeWandb& server) {
    const auto requests = server.requests();
    return std::count_if(requests.begin(), requests.end(), [](const FakeWandb::Request& request) {
      return absl::EndsWith(request.path, "/file_stream");
    });
  };
  // The second server gets half of the workers that the first one left.
  const int expected[] = {kWorkers, 1};
  for (int which : {0, 1}) {
    for (int n = 0; n < kWorkers + 2; ++n) {
      run_job(absl::StrCat("hangs-", which, "-", n), hanging[which].url());
    }
    ASSERT_TRUE(WaitFor([&] { return posts(hanging[which]) == expected[which]; }));
  }
  run_job("good", working.url());
  EXPECT_TRUE(working.WaitForEnd("good", absl::Seconds(10)));
  ExpectEveryRowOnce(working.run("good"), 10);
  for (int which : {0, 1}) EXPECT_EQ(posts(hanging[which]), expected[which]);
  EXPECT_EQ(node.Terminate(), 0);
}

}  // namespace
}  // namespace ranklog::testing
