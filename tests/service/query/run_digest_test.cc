#include "service/query/run_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::query {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A run with ten rows of two metrics at steps 0 to 9: "lr" is the step, "train/loss" 1/16 more.
class RunDigestTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] {
      const model::Stream stream = Attach(0);
      run_ = stream.run;
      stream_ = stream.id;
      EXPECT_OK(store_->DefineRunShape(run_, 1, std::vector<std::string>{"lr", "train/loss"}));
      EXPECT_OK(store_->AppendRunRows(run_, Dense(0, 10, 1, 2)));
      EXPECT_OK(store_->SetPosition(run_, {.last_step = 9, .furthest_step = 9}));
    });
  }
  RunDigest Digest(const DigestOptions& options) {
    auto digest = DigestRun(*reader_, reader_->GetRun(run_).value(), options);
    EXPECT_OK(digest);
    return digest.value_or(RunDigest());
  }
  static std::vector<std::string> PlotsOf(const RunDigest& digest) {
    std::vector<std::string> names;
    for (const size_t i : digest.plotted) names.push_back(digest.metrics[i].name);
    return names;
  }

  int64_t run_ = 0;
  int64_t stream_ = 0;
};

TEST_F(RunDigestTest, SummarizesEachMetric) {
  const RunDigest digest = Digest({.plotted = {}, .columns = 5});
  ASSERT_THAT(digest.metrics, SizeIs(2));
  EXPECT_EQ(digest.metrics[0].name, "lr");
  const Series& loss = digest.metrics[1].series;
  EXPECT_EQ(loss.count(), 10u);
  EXPECT_EQ(loss.min(), 1.0 / 16);
  EXPECT_EQ(loss.last(), 9 + 1.0 / 16);
  EXPECT_EQ(loss.last_x(), 9);
  EXPECT_THAT(loss.columns(), SizeIs(5));
  EXPECT_EQ(digest.summary["lr"], 9);
}

TEST_F(RunDigestTest, PlotsLossesFirstWithinTheLimit) {
  EXPECT_THAT(PlotsOf(Digest({})), ElementsAre("train/loss", "lr"));
  const RunDigest one = Digest({.plotted = {}, .plots = 1, .columns = 5});
  EXPECT_THAT(PlotsOf(one), ElementsAre("train/loss"));
  EXPECT_THAT(one.metrics[0].series.columns(), SizeIs(1)) << "it is not plotted";
}

TEST_F(RunDigestTest, PlotsChosenMetricsInTheGivenOrder) {
  EXPECT_THAT(PlotsOf(Digest({.plotted = {"lr", "train/loss"}})), ElementsAre("lr", "train/loss"));
}

TEST_F(RunDigestTest, UnknownMetricErrorListsKnownOnes) {
  EXPECT_THAT(DigestRun(*reader_, reader_->GetRun(run_).value(), {.plotted = {"los"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("it has: lr, train/loss")));
}

TEST_F(RunDigestTest, HiddenRowsOfEarlierAttemptDoNotCount) {
  Do([&] {
    EXPECT_OK(store_->AddRewind(run_, {.first_step = 5, .rows = 10, .replays = 0}));
    EXPECT_OK(store_->SetPosition(run_, {.last_step = 4, .furthest_step = 9}));
  });
  const RunDigest digest = Digest({});
  EXPECT_EQ(digest.metrics[0].series.count(), 5u);
  EXPECT_EQ(digest.metrics[0].series.max(), 4);
  EXPECT_EQ(digest.summary["lr"], 4);
}

TEST_F(RunDigestTest, HasConfigOfTheRanks) {
  model::Item update;
  update.object = {{"lr", 0.5}};
  Do([&] { EXPECT_OK(testing::AppendItem(*store_, stream_, update, 1)); });
  EXPECT_EQ(Digest({}).config["lr"], 0.5);
}

}  // namespace
}  // namespace ranklog::query
