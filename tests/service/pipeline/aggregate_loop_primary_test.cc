// How a run that waits for its node's first rank gets its primary.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/pipeline/aggregate_loop_fixture.h"

namespace ranklog::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PrimaryTest : public AggregateLoopTest {
 protected:
  PrimaryTest() {
    strategy_ = model::LogStrategy::kNode;
    options_.on_primary_chosen = [this](int64_t run) {
      absl::MutexLock lock(&mutex_);
      chosen_.push_back(run);
    };
    loop_ = MakeLoop();
  }
  // Attaches a rank to the waiting run.
  int64_t AttachWaiting(uint32_t rank) {
    model::Session session;
    session.stream = {"project", "job", rank, /*incarnation=*/1};
    session.settings.strategy = strategy_;
    session.settings.rank_statistics = {"mean"};
    session.settings.destinations = {"wandb"};
    session.identity.world_size = 8;
    session.identity.local_world_size = local_world_size_;
    model::RunAssignment assignment;
    assignment.run_id = "job-pending";
    assignment.local_only = true;
    assignment.primary_chosen = false;
    int64_t id = 0;
    Write([&](storage::Store& store) -> absl::Status {
      const auto stream = store.Attach(session, assignment, clock_us_++);
      if (!stream.ok()) return stream.status();
      id = stream->id;
      return store.DefineShape(id, 1, {"loss"});
    });
    loop_->Notify(kRun);
    return id;
  }
  std::vector<int64_t> chosen() {
    absl::MutexLock lock(&mutex_);
    return chosen_;
  }

 private:
  std::vector<int64_t> chosen_;
};

TEST_F(PrimaryTest, RowsAndDeliveriesWaitForChoice) {
  const int64_t third = AttachWaiting(3);
  Log(third, 0, 9, 0);
  now_ += options_.run.step_wait;
  Settle();
  EXPECT_FALSE(StoredRun().primary_chosen);
  EXPECT_THAT(Rows(), IsEmpty());
  EXPECT_THAT(*Reader()->Deliveries(kRun), IsEmpty());
}

TEST_F(PrimaryTest, LowestEndedRankIsChosen) {
  for (uint32_t rank : {5, 3}) {
    const int64_t stream = AttachWaiting(rank);
    Log(stream, 0, 1, rank);
    End(stream);
  }
  Settle();
  EXPECT_THAT(Rows(), IsEmpty()) << "more may come";
  now_ += options_.run.close_wait;
  Settle();
  EXPECT_EQ(StoredRun().run_id, "job-3");
  EXPECT_EQ(StoredRun().name, "rank-3");
  EXPECT_EQ(StoredRun().state, model::RunState::kFinished);
  EXPECT_THAT(Steps(), ElementsAre(0, 1));
  EXPECT_EQ(Rows().at(0)["rank_mean/loss"], 4);
  EXPECT_THAT(chosen(), ElementsAre(kRun));
  ASSERT_THAT(*Reader()->Deliveries(kRun), SizeIs(1));
  EXPECT_EQ(Reader()->Deliveries(kRun)->at(0).kind, "wandb");
}

TEST_F(PrimaryTest, UnknownLocalSizeShortensWait) {
  local_world_size_ = 0;
  const int64_t stream = AttachWaiting(3);
  Log(stream, 0, 1, 0);
  Settle();
  EXPECT_FALSE(StoredRun().primary_chosen);
  now_ += options_.run.step_wait;
  Settle();
  EXPECT_EQ(StoredRun().run_id, "job-3");
  EXPECT_THAT(Steps(), ElementsAre(0, 1));
}

TEST_F(PrimaryTest, RestartKeepsWaitingForFirstRank) {
  AttachWaiting(3);
  Settle();
  Restart();
  now_ += options_.run.first_rank_wait - absl::Seconds(1);
  Settle();
  EXPECT_FALSE(StoredRun().primary_chosen);
  now_ += options_.run.first_rank_wait;
  Settle();
  EXPECT_TRUE(StoredRun().primary_chosen);
}

TEST_F(PrimaryTest, FirstRankReleasesOtherRanksRows) {
  const int64_t second = AttachWaiting(3);
  Log(second, 0, 1, 2);
  Settle();
  model::Session session;
  session.stream = {"project", "job", 1, /*incarnation=*/1};
  session.settings.strategy = strategy_;
  session.settings.rank_statistics = {"mean"};
  session.identity.local_world_size = local_world_size_;
  model::RunAssignment assignment;
  assignment.run_id = "job-1";
  assignment.primary_rank = 1;
  assignment.primary = true;
  assignment.run = kRun;
  int64_t first = 0;
  Write([&](storage::Store& store) -> absl::Status {
    const auto stream = store.Attach(session, assignment, clock_us_++);
    first = stream->id;
    return store.DefineShape(first, 1, {"loss"});
  });
  Log(first, 0, 1, 0);
  Settle();
  EXPECT_THAT(Steps(), ElementsAre(0, 1));
  EXPECT_EQ(Rows().at(0)["rank_mean/loss"], 1);
}

}  // namespace
}  // namespace ranklog::pipeline
