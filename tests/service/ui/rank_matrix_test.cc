#include "service/ui/curves/rank_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::ui {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::NanSensitiveDoubleEq;
using ::testing::SizeIs;

class RankMatrixTest : public StoreTest {
 protected:
  // Rank `rank` logs "time" = step + add at the steps 1 to `rows`, `late_us` after rank 0.
  void Log(uint32_t rank, uint64_t rows, double add, int64_t late_us = 0,
           uint64_t incarnation = 7) {
    Do([&] {
      const model::Stream stream = Attach(rank, incarnation);
      run_ = stream.run;
      EXPECT_OK(store_->DefineShape(stream.id, 1, std::vector<std::string>{"time"}));
      model::Batch batch = Dense(1, rows, 1, 1);
      for (double& value : batch.blocks[0].values) value += add;
      for (int64_t& time : batch.blocks[0].times_us) time += late_us;
      EXPECT_OK(store_->Append(stream.id, batch));
    });
  }
  RankMatrix Read(const std::string& metric, const RankMatrixOptions& options = {}) {
    auto matrix = ReadRankMatrix(*reader_, run_, metric, options);
    EXPECT_OK(matrix);
    return matrix.value_or(RankMatrix());
  }

  int64_t run_ = 0;
};

TEST_F(RankMatrixTest, CountsHowOftenEachRankWasHighest) {
  Log(0, 4, 0);
  Log(1, 4, 0.5);
  Log(2, 3, 0.25);
  const RankMatrix matrix = Read("time");
  EXPECT_THAT(matrix.steps, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(matrix.ranks, ElementsAre(0u, 1u, 2u));
  EXPECT_THAT(matrix.values[1], ElementsAre(1.5, 2.5, 3.5, 4.5));
  EXPECT_THAT(matrix.values[2], ElementsAre(1.25, 2.25, 3.25, NanSensitiveDoubleEq(std::nan(""))));
  EXPECT_THAT(matrix.highest, ElementsAre(0u, 4u, 0u));
  EXPECT_EQ(matrix.compared, 4u);
}

TEST_F(RankMatrixTest, EqualRanksAreNotCompared) {
  Log(0, 4, 0);
  Log(1, 4, 0);
  const RankMatrix matrix = Read("time");
  EXPECT_EQ(matrix.compared, 0u);
  EXPECT_THAT(matrix.highest, ElementsAre(0u, 0u));
}

TEST_F(RankMatrixTest, LagIsTheTimeBehindTheFirstRank) {
  Log(0, 2, 0, 1'000'000);
  Log(1, 2, 0, 1'250'000);
  const RankMatrix matrix = Read(kLag);
  EXPECT_THAT(matrix.values[0], ElementsAre(0, 0));
  EXPECT_THAT(matrix.values[1], ElementsAre(0.25, 0.25));
  EXPECT_THAT(matrix.highest, ElementsAre(0u, 2u));
}

TEST_F(RankMatrixTest, RankWithOnlyNaNIsShownAndCounted) {
  Log(0, 3, 0);
  Log(1, 3, std::numeric_limits<double>::quiet_NaN());
  const RankMatrix matrix = Read("time");
  EXPECT_THAT(matrix.ranks, ElementsAre(0u, 1u));
  EXPECT_THAT(matrix.not_finite, ElementsAre(0u, 3u));
}

TEST_F(RankMatrixTest, UnknownMetricHasNoRanks) {
  Log(0, 2, 0);
  EXPECT_THAT(Read("absent").ranks, IsEmpty());
}

TEST_F(RankMatrixTest, LongRunsHaveStepsSpreadOverThem) {
  Log(0, 10'000, 0);
  Log(1, 10'000, 1);
  const RankMatrix matrix = Read("time", {.most_steps = 100});
  EXPECT_THAT(matrix.steps, SizeIs(Le(100u)));
  EXPECT_GE(matrix.steps.size(), 50u);
  EXPECT_GE(matrix.steps.back(), 9'800);
  EXPECT_EQ(matrix.highest[1], matrix.steps.size());
}

TEST_F(RankMatrixTest, OldestRowsAreLeftOutAndCounted) {
  Log(0, 1000, 0);
  Log(1, 1000, 1);
  const RankMatrix matrix = Read("time", {.most_rows = 200});
  EXPECT_EQ(matrix.steps.back(), 1000);
  EXPECT_EQ(matrix.steps.front(), 1000 - 100);
  EXPECT_EQ(matrix.rows_left_out, 2u * 899);
}

TEST_F(RankMatrixTest, LaterAttemptOfARankCounts) {
  Log(0, 3, 0);
  Log(1, 3, 0.5);
  now_us_ += 1000;
  Log(1, 2, 0.75, 0, /*incarnation=*/8);
  EXPECT_THAT(Read("time").values[1], ElementsAre(1.75, 2.75, 3.5));
}

}  // namespace
}  // namespace ranklog::ui
