#include "service/ui/curves/run_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::ui {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Lt;
using ::testing::SizeIs;

// A run with the metrics "lr", whose value is the step, and "train/loss", 1/16 more.
class RunCurvesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] {
      run_ = Attach(0).run;
      EXPECT_OK(store_->DefineRunShape(run_, 1, std::vector<std::string>{"lr", "train/loss"}));
    });
  }
  void Append(uint64_t first, uint64_t rows) {
    Do([&] {
      EXPECT_OK(store_->AppendRunRows(run_, Dense(first, rows, 1, 2)));
      const auto last = static_cast<int64_t>(first + rows - 1);
      EXPECT_OK(store_->SetPosition(run_, {.last_step = last, .furthest_step = last}));
    });
  }
  static std::vector<int64_t> StepsOf(const RunCurves& curves, const std::string& metric) {
    std::vector<int64_t> steps;
    if (curves.Find(metric) == nullptr) return steps;
    for (const Point& point : curves.Find(metric)->All()) steps.push_back(point.x);
    return steps;
  }

  int64_t run_ = 0;
};

TEST_F(RunCurvesTest, FollowsARunThatGrows) {
  RunCurves curves(run_);
  Append(0, 3);
  ASSERT_OK(curves.Update(*reader_));
  EXPECT_THAT(curves.metrics(), ElementsAre("lr", "train/loss"));
  EXPECT_THAT(StepsOf(curves, "train/loss"), ElementsAre(0, 1, 2));
  Append(3, 2);
  ASSERT_OK(curves.Update(*reader_));
  EXPECT_THAT(StepsOf(curves, "train/loss"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(curves.Find("train/loss")->last().value, 4 + 1.0 / 16);
  EXPECT_EQ(curves.run().rows, 5u);
  EXPECT_EQ(curves.Find("absent"), nullptr);
}

TEST_F(RunCurvesTest, UpdateWithoutNewRowsAddsNothing) {
  RunCurves curves(run_);
  Append(0, 3);
  ASSERT_OK(curves.Update(*reader_));
  ASSERT_OK(curves.Update(*reader_));
  EXPECT_EQ(curves.Find("lr")->count(), 3u);
}

TEST_F(RunCurvesTest, IntegersBeyondDoublesHaveACurve) {
  Do([&] {
    model::Batch batch = Dense(0, 2, /*shape=*/0, /*width=*/0);
    batch.blocks[0].texts = {{.row = 0, .key = "big", .value = "9007199254740994", .json = true},
                             {.row = 0, .key = "flag", .value = "true", .json = true},
                             {.row = 0, .key = "text", .value = "12"},
                             {.row = 1, .key = "big", .value = "-9007199254740994", .json = true}};
    EXPECT_OK(store_->AppendRunRows(run_, batch));
  });
  RunCurves curves(run_);
  ASSERT_OK(curves.Update(*reader_));
  EXPECT_THAT(curves.MetricsOfTexts(), ElementsAre("big"));
  ASSERT_NE(curves.Find("big"), nullptr);
  EXPECT_EQ(curves.Find("big")->max(), 9007199254740994.0);
  EXPECT_EQ(curves.Find("big")->min(), -9007199254740994.0);
  EXPECT_EQ(curves.Find("flag"), nullptr);
  EXPECT_EQ(curves.Find("text"), nullptr);
}

TEST_F(RunCurvesTest, RowsWithoutNumbersAreReadOnce) {
  RunCurves curves(run_);
  const auto append = [&](uint64_t first, const std::string& text) {
    Do([&] {
      model::Batch batch = Dense(first, 1, /*shape=*/0, /*width=*/0);
      batch.blocks[0].texts = {{.row = 0, .key = "text", .value = text}};
      EXPECT_OK(store_->AppendRunRows(run_, batch));
    });
  };
  append(0, "a");
  ASSERT_OK(curves.Update(*reader_));
  append(1, "b");
  ASSERT_OK(curves.Update(*reader_));
  ASSERT_OK_AND_ASSIGN(const model::Json summary, curves.Summary(*reader_));
  EXPECT_EQ(summary["text"], "b");
  EXPECT_EQ(curves.run().rows, 2u);
}

TEST_F(RunCurvesTest, RewoundRunShowsTheNewestAttemptOnly) {
  RunCurves curves(run_);
  Append(0, 6);
  ASSERT_OK(curves.Update(*reader_));
  Do([&] {
    EXPECT_OK(store_->AddRewind(run_, {.first_step = 3, .rows = 6, .replays = 0}));
    model::Batch replays = Dense(0, 2, 1, 2);
    replays.blocks[0].steps = {3, 4};
    EXPECT_OK(store_->AppendReplays(run_, replays));
  });
  ASSERT_OK(curves.Update(*reader_));
  EXPECT_THAT(StepsOf(curves, "lr"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(curves.Find("lr")->last().value, 1) << "that of the replay";
  EXPECT_EQ(curves.rewinds(), 1u);
}

TEST_F(RunCurvesTest, SummaryHasLastValues) {
  RunCurves curves(run_);
  Append(0, 3);
  ASSERT_OK(curves.Update(*reader_));
  ASSERT_OK_AND_ASSIGN(const model::Json summary, curves.Summary(*reader_));
  EXPECT_EQ(summary["lr"], 2);
}

TEST_F(RunCurvesTest, SampleHasTheShapeOfALongRun) {
  for (uint64_t first = 0; first < 100'000; first += 1000) Append(first, 1000);
  RunCurves curves(run_);
  ASSERT_OK(curves.Sample(*reader_, absl::Seconds(60)));
  const std::vector<int64_t> steps = StepsOf(curves, "lr");
  ASSERT_THAT(steps, SizeIs(Gt(100u)));
  EXPECT_THAT(steps.front(), Lt(100));
  EXPECT_THAT(steps.back(), Gt(99'000));
  EXPECT_THAT(curves.Find("lr")->count(), Lt(50'000u));
}

}  // namespace
}  // namespace ranklog::ui
