// How a row is made, which rows are late, and how results are returned.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/service/aggregate/run_aggregator_fixture.h"

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The rows of the stream that the run's rows repeat, by index: sequence number and added values.
std::map<uint64_t, std::pair<uint64_t, uint32_t>> SourcesOf(const Aggregated& result) {
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> sources;
  for (const model::Batch& batch : result.batches) {
    for (const model::Block& block : batch.blocks) {
      for (size_t row = 0; row < block.source.seqs.size(); ++row) {
        sources[batch.first + block.offsets[row]] = {block.source.seqs[row], block.source.added};
        EXPECT_EQ(block.source.rank, 0u);
      }
    }
  }
  return sources;
}

TEST_F(RunAggregatorTest, RowsThatRepeatARanksRowNameIt) {
  StartTwo();
  Log(kPrimary, {{.step = 1, .values = {1}, .texts = {{"note", "a"}}},
                 {.step = 2, .values = {2}},
                 {.step = 3, .values = {3}},
                 {.step = 3, .shape = 3, .values = {0.5}},  // merged with the row before
                 {.step = 4, .shape = 0, .texts = {{"loss", "none"}}},
                 {.step = 5, .values = {5}, .texts = {{"loss", "none"}}},  // replaces a number
                 {.step = 6, .shape = 0, .texts = {{"note", "a"}, {"note", "b"}}}});
  Log(kOther, {{.step = 1, .values = {1}}, {.step = 2, .values = {4}}, {.step = 3, .values = {3}}});
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  const Aggregated result = aggregator_->Advance(now_);
  ASSERT_THAT(result.batches, SizeIs(1));
  EXPECT_EQ(result.batches[0].rows(), 6u);
  using Source = std::pair<uint64_t, uint32_t>;
  EXPECT_THAT(SourcesOf(result), ElementsAre(std::pair(0u, Source(1, 0)),  // ranks are equal
                                             std::pair(1u, Source(2, 3)),  // mean, min and max
                                             std::pair(3u, Source(5, 0))));
}

// Steps are counted on from the run's last row.
TEST_F(RunAggregatorTest, RowsWithAnotherStepAreNotRepeats) {
  stored_.run.rows = 10;
  stored_.run.last_step = stored_.run.furthest_step = 9;
  Start();
  model::Stream stream = StreamOf(kPrimary, 0, true);
  stream.attempt = 2;
  streams_[kPrimary] = stream;
  aggregator_->AddStream(stream);
  aggregator_->DefineShape(kPrimary, 1, {"loss"});
  Advance();
  Log(kPrimary, {{.step = 0, .values = {1}, .commits = true}});
  End(kPrimary);
  const Aggregated result = aggregator_->Advance(now_);
  ASSERT_THAT(result.batches, SizeIs(1));
  EXPECT_THAT(result.batches[0].blocks.at(0).steps, ElementsAre(10));
  EXPECT_THAT(SourcesOf(result), IsEmpty());
}

TEST_F(RunAggregatorTest, MergesPrimaryRowsOfOneStep) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .values = {1}, .time_us = 10},
                 {.step = 1, .shape = 3, .values = {7}, .time_us = 20},
                 {.step = 1, .shape = 2, .values = {0.1, 2}, .time_us = 30},
                 {.step = 2, .values = {9}, .time_us = 40}});
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss", "acc", "lr"));
  EXPECT_EQ(rows[0]["loss"], 2);
  EXPECT_EQ(rows[0].time_us, 30);
  EXPECT_EQ(stored_.consumed[kPrimary].seq, 3u);
}

TEST_F(RunAggregatorTest, MergesThePrimarysStreamsByStep) {
  StartTwo();
  Join(3, 0, true);  // another thread of rank 0
  Log(3, {{.step = 1, .shape = 3, .values = {7}}});
  Log(kPrimary, 1, 1);
  Log(kPrimary, 5, 1);
  Log(kOther, 5, 1);
  EXPECT_THAT(Advance(), IsEmpty());  // the thread has not passed step 1
  Log(3, {{.step = 2, .shape = 2, .values = {3, 4}}});
  Log(3, 5, 0);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1, 2));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss", "acc"));
}

TEST_F(RunAggregatorTest, RowsCarryOnlyPrimaryTexts) {
  StartTwo();
  Log(kPrimary, {{.step = 1, .shape = 0, .texts = {{"sample", "a"}, {"note", "b"}}},
                 {.step = 1, .values = {1}, .texts = {{"sample", "c"}}},
                 {.step = 2, .shape = 0, .texts = {{"sample", "d"}}}});
  Log(kOther, {{.step = 1, .values = {1}, .texts = {{"sample", "other"}}}});
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_THAT(rows[0].texts, ElementsAre(std::pair<const std::string, std::string>("note", "b"),
                                         std::pair<const std::string, std::string>("sample", "c")));
  EXPECT_THAT(rows[1].numbers, IsEmpty());
}

TEST_F(RunAggregatorTest, LaterOfTextAndNumberWins) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .shape = 2, .values = {0.5, 1}},
                 {.step = 1, .shape = 0, .texts = {{"loss", "diverged"}}},
                 {.step = 2, .shape = 0, .texts = {{"loss", "diverged"}}},
                 {.step = 2, .shape = 2, .values = {0.5, 2}}});
  End(kPrimary);
  const std::vector<RunRow> rows = Advance();
  EXPECT_THAT(Keys(rows.at(0)), ElementsAre("lr"));
  EXPECT_EQ(rows[0].texts.at("loss"), "diverged");
  EXPECT_EQ(rows.at(1)["loss"], 2);
  EXPECT_THAT(rows[1].texts, IsEmpty());
}

TEST_F(RunAggregatorTest, TypedValuesKeepTheirType) {
  Start();
  Join(kPrimary, 0, true);
  model::Batch batch =
      BatchOf(1, {{.step = 1, .values = {1}, .texts = {{"flag", "true"}, {"note", "true"}}}});
  batch.blocks[0].texts[0].json = true;
  aggregator_->AddRows(kPrimary, batch);
  End(kPrimary);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(rows[0].texts,
              ElementsAre(std::pair<const std::string, std::string>("note", "true")));
  EXPECT_THAT(rows[0].json, ElementsAre(std::pair<const std::string, std::string>("flag", "true")));
}

// Threads and forked children have their own streams.
TEST_F(RunAggregatorTest, LaterRowWinsAcrossStreams) {
  StartTwo();
  Join(3, 0, true);
  Join(4, 1, false);
  Log(3, {{.step = 1, .values = {3}, .time_us = 10}});
  Log(kPrimary, {{.step = 1, .shape = 0, .time_us = 20, .texts = {{"loss", "diverged"}}},
                 {.step = 2, .values = {1}, .time_us = 30},
                 {.step = 2, .shape = 2, .values = {0.5, 2}, .time_us = 5}});  // the clock was set
  Log(3, {{.step = 2, .values = {4}, .time_us = 29}});
  Log(4, {{.step = 2, .values = {10}, .time_us = 40}});
  Log(kOther, {{.step = 2, .values = {20}, .time_us = 50}});
  for (int64_t stream : {kPrimary, kOther, int64_t{3}, int64_t{4}}) End(stream);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1, 2));
  EXPECT_EQ(rows[0].texts.at("loss"), "diverged");
  EXPECT_THAT(rows[0].numbers, IsEmpty());
  EXPECT_EQ(rows[1]["loss"], 2);
  EXPECT_EQ(rows[1]["rank_max/loss"], 20);
}

TEST_F(RunAggregatorTest, RestartedPrimarysOldStepsAreLate) {
  StartTwo();
  for (int step = 0; step < 6; ++step) Log(kPrimary, step, step);
  End(kPrimary);
  for (int step = 0; step < 10; ++step) Log(kOther, step, step);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0, 1, 2, 3, 4, 5));

  Join(3, 0, true);  // resumed from a checkpoint at step 4
  for (int step = 4; step < 9; ++step) Log(3, step, 100 + step);
  End(3);
  EXPECT_THAT(Steps(Advance()), ElementsAre(6, 7, 8));
  EXPECT_EQ(late(3), 2u);
  EXPECT_EQ(stored_.consumed[3].seq, 5u);
}

TEST_F(RunAggregatorTest, RowWithFallingStepIsLate) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, 5, 1);
  Log(kPrimary, 3, 2);
  Log(kPrimary, 6, 3);
  End(kPrimary);
  EXPECT_THAT(Steps(Advance()), ElementsAre(5, 6));
  EXPECT_EQ(stored_.rows[0]["loss"], 1);
  EXPECT_EQ(late(kPrimary), 1u);
  EXPECT_EQ(stored_.consumed[kPrimary].seq, 3u);
}

TEST_F(RunAggregatorTest, BadShapeRowsCountAsLate) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .shape = 77, .values = {1}}, {.step = 1, .values = {1, 2}}});
  End(kPrimary);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(late(kPrimary), 2u);
}

// Like the official SDK: an empty step has no line, but is over.
TEST_F(RunAggregatorTest, EmptyRowOnlyPassesItsStep) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .values = {1}},
                 {.step = 2, .shape = 0, .commits = true},
                 {.step = 4, .shape = 0},
                 {.step = 4, .values = {2}, .commits = true},
                 {.step = 5, .shape = 0, .commits = true}});
  EXPECT_THAT(Steps(Advance()), ElementsAre(1, 4));
  EXPECT_EQ(late(kPrimary), 0u);
  EXPECT_EQ(stored_.consumed[kPrimary].seq, 5u);
}

TEST_F(RunAggregatorTest, RowsSeenBeforeAreSkipped) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .values = {1}, .commits = true}});
  EXPECT_THAT(Advance(), SizeIs(1));
  aggregator_->AddRows(kPrimary, BatchOf(1, {{.step = 1, .values = {1}, .commits = true},
                                             {.step = 2, .values = {1}, .commits = true}}));
  EXPECT_THAT(Steps(Advance()), ElementsAre(2));
  EXPECT_EQ(late(kPrimary), 0u);
}

TEST_F(RunAggregatorTest, LargestStepMakesARow) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, std::numeric_limits<int64_t>::max(), 1);
  End(kPrimary);
  EXPECT_THAT(Advance(), SizeIs(1));
}

TEST_F(RunAggregatorTest, BoundedBatchesContinueTheRun) {
  stored_.run.rows = 1000;
  stored_.shapes = {{}, {"loss"}};
  Start();
  Join(kPrimary, 0, true);
  std::vector<RankRow> rows;
  for (int step = 0; step < 100000; ++step) rows.push_back({.step = step, .values = {1}});
  Log(kPrimary, rows);
  End(kPrimary);
  const Aggregated result = aggregator_->Advance(now_);
  EXPECT_THAT(result.shapes, IsEmpty());  // the stored one is used
  ASSERT_THAT(result.batches, SizeIs(3));
  EXPECT_EQ(result.batches[0].first, 1000u);
  EXPECT_EQ(result.batches[1].first, result.batches[0].last + 1);
  EXPECT_TRUE(stored_.Store(result));
}

// A tracker that has steps from another store must count these on.
TEST_F(RunAggregatorTest, RowsWithoutStepAreMarkedCounted) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 0, .values = {1}, .commits = true},
                 {.step = 1, .values = {2}, .commits = true},
                 {.step = 5, .values = {3}},
                 {.step = 6, .values = {4}, .commits = true, .counted = false}});
  std::vector<bool> counted;
  for (const model::Batch& batch : aggregator_->Advance(now_).batches) {
    EXPECT_TRUE(model::Validate(batch).ok());
    model::ForEachRow(batch, [&](const model::Block& block, size_t, uint64_t) {
      counted.push_back(block.counted);
    });
  }
  EXPECT_THAT(counted, ElementsAre(true, true, false, false));
}

}  // namespace
}  // namespace ranklog::aggregate
