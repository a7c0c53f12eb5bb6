// The rows of a run do not depend on how rows are batched, or on when the daemon restarts. Each row
// of the primary is there once, in order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "service/aggregate/run_aggregator.h"
#include "tests/service/aggregate/rows.h"

namespace ranklog::aggregate {
namespace {

const std::vector<std::vector<std::string>> kShapes = {
    {}, {"loss"}, {"loss", "lr"}, {"acc", "loss"}, {"time", "acc", "lr"}};

struct RankLog {
  model::Stream stream;
  std::vector<RankRow> rows;  // seq is the index + 1
};

// Makes ranks 0 to 3, rank 0 with two threads, and steps with gaps and repeats. The ranks' "lr" is
// equal at most steps.
std::vector<RankLog> RandomJob(std::mt19937& random) {
  std::vector<RankLog> job;
  for (int64_t id = 1; id <= 5; ++id) {
    RankLog log;
    log.stream = StreamOf(id, id == 5 ? 0 : static_cast<uint32_t>(id - 1), id == 1 || id == 5);
    int64_t step = random() % 3;
    const size_t count = 20 + random() % 60;
    for (size_t i = 0; i < count; ++i) {
      RankRow row;
      row.commits = random() % 4 == 0;
      row.step = step;
      row.shape = random() % 20 == 0 ? 0 : 1 + random() % 4;
      row.time_us = static_cast<int64_t>(random() % 1000);
      for (const std::string& key : kShapes[row.shape]) {
        row.values.push_back(key == "lr" ? random() % 50 == 0 : random() % 100);
      }
      if (row.shape == 0 || random() % 10 == 0) row.texts = {{"note", std::to_string(i)}};
      step += row.commits ? 1 + random() % 2 : random() % 3;
      log.rows.push_back(std::move(row));
    }
    log.stream.durable_seq = count;
    log.stream.state = model::StreamState::kFinished;
    job.push_back(std::move(log));
  }
  return job;
}

std::unique_ptr<RunAggregator> StartFrom(const StoredRun& stored, const std::vector<RankLog>& job) {
  auto aggregator =
      std::make_unique<RunAggregator>(stored.run, stored.shapes, RunAggregator::Options());
  for (const RankLog& log : job) {
    model::Stream stream = log.stream;
    if (auto found = stored.consumed.find(stream.id); found != stored.consumed.end()) {
      stream.aggregated_seq = found->second.seq;
      stream.late_rows = found->second.late_rows;
      stream.replayed_rows = found->second.replayed_rows;
      stream.merged_rows = found->second.merged_rows;
      stream.step_base = found->second.step_base;
    }
    aggregator->AddStream(stream);
    for (uint32_t shape = 1; shape < kShapes.size(); ++shape) {
      aggregator->DefineShape(stream.id, shape, kShapes[shape]);
    }
  }
  return aggregator;
}

model::Batch Rows(const RankLog& log, uint64_t after, size_t count) {
  const auto begin = log.rows.begin() + static_cast<ptrdiff_t>(after);
  return BatchOf(after + 1, {begin, begin + static_cast<ptrdiff_t>(count)});
}

// Aggregates everything at once.
StoredRun Whole(const std::vector<RankLog>& job) {
  StoredRun stored;
  auto aggregator = StartFrom(stored, job);
  for (const RankLog& log : job) aggregator->AddRows(log.stream.id, Rows(log, 0, log.rows.size()));
  EXPECT_TRUE(stored.Store(aggregator->Advance(absl::UnixEpoch())));
  EXPECT_TRUE(aggregator->all_streams_ended());
  return stored;
}

// Aggregates random batches, with restarts. A restart before the commit loses the result.
StoredRun Piecewise(const std::vector<RankLog>& job, std::mt19937& random) {
  StoredRun stored;
  auto aggregator = StartFrom(stored, job);
  while (!aggregator->all_streams_ended()) {
    const RankLog& log = job[random() % job.size()];
    const uint64_t added = aggregator->added_seq(log.stream.id);
    if (added < log.rows.size()) {
      const size_t count = 1 + random() % (log.rows.size() - added);
      aggregator->AddRows(log.stream.id, Rows(log, added, std::min<size_t>(count, 12)));
    }
    if (random() % 3 == 0) continue;
    const Aggregated result = aggregator->Advance(absl::UnixEpoch());
    const bool dies_before_commit = random() % 8 == 0;
    if (!dies_before_commit) {
      EXPECT_TRUE(stored.Store(result));
    }
    if (dies_before_commit || random() % 8 == 0) aggregator = StartFrom(stored, job);
  }
  return stored;
}

TEST(RunAggregatorRestartTest, ArrivalAndRestartsNeverChangeRows) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<RankLog> job = RandomJob(random);
    const StoredRun whole = Whole(job);

    // The steps of the primary's streams, each once, ascending.
    std::vector<int64_t> steps;
    for (const RankLog& log : job) {
      if (!log.stream.primary) continue;
      for (const RankRow& row : log.rows) steps.push_back(row.step);
    }
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    std::vector<int64_t> made;
    for (const RunRow& row : whole.rows) made.push_back(row.step);
    ASSERT_EQ(made, steps);

    const StoredRun piecewise = Piecewise(job, random);
    ASSERT_EQ(piecewise.rows, whole.rows);
    for (const RankLog& log : job) {
      EXPECT_EQ(piecewise.consumed.at(log.stream.id).seq, log.rows.size());
      EXPECT_EQ(piecewise.consumed.at(log.stream.id).late_rows, 0u);
    }
  }
}

}  // namespace
}  // namespace ranklog::aggregate
