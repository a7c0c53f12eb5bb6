// An aggregator of a run that the test feeds, and the store for its rows.

#ifndef TESTS_SERVICE_AGGREGATE_RUN_AGGREGATOR_FIXTURE_H_
#define TESTS_SERVICE_AGGREGATE_RUN_AGGREGATOR_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "service/aggregate/run_aggregator.h"
#include "tests/service/aggregate/rows.h"

namespace ranklog::aggregate {

inline constexpr int64_t kPrimary = 1;  // rank 0's stream
inline constexpr int64_t kOther = 2;    // rank 1's stream

inline std::vector<int64_t> Steps(const std::vector<RunRow>& rows) {
  std::vector<int64_t> steps;
  for (const RunRow& row : rows) steps.push_back(row.step);
  return steps;
}

inline std::vector<std::string> Keys(const RunRow& row) {
  std::vector<std::string> keys;
  for (const auto& number : row.numbers) keys.push_back(number.first);
  return keys;
}

class RunAggregatorTest : public ::testing::Test {
 protected:
  void Start(RunAggregator::Options options = {}) {
    aggregator_ = std::make_unique<RunAggregator>(stored_.run, stored_.shapes, options);
  }
  void Join(int64_t id, uint32_t rank, bool primary) {
    streams_[id] = StreamOf(id, rank, primary);
    aggregator_->AddStream(streams_[id]);
    aggregator_->DefineShape(id, 1, {"loss"});
    aggregator_->DefineShape(id, 2, {"lr", "loss"});
    aggregator_->DefineShape(id, 3, {"acc"});
  }
  // Starts with ranks 0 and 1.
  void StartTwo(RunAggregator::Options options = {}) {
    Start(options);
    Join(kPrimary, 0, true);
    Join(kOther, 1, false);
  }
  void Log(int64_t stream, const std::vector<RankRow>& rows) {
    aggregator_->AddRows(stream, BatchOf(next_seq_[stream] + 1, rows));
    next_seq_[stream] += rows.size();
  }
  void Log(int64_t stream, int64_t step, double loss) {
    Log(stream, {{.step = step, .values = {loss}}});
  }
  // The stream's rows so far are stored, and it has passed `step`, or has ended.
  void Progress(int64_t id, int64_t step) {
    streams_[id].passed_step = step;
    Update(id);
  }
  void End(int64_t id) {
    streams_[id].state = model::StreamState::kFinished;
    Update(id);
  }
  void Update(int64_t id) {
    streams_[id].durable_seq = next_seq_[id];
    aggregator_->AddStream(streams_[id]);
  }
  // Rank 1 of the node has not attached.
  void LogTwoStepsOfRankZeroOfTwo(RunAggregator::Options options = {}) {
    Start(options);
    model::Stream& primary = streams_[kPrimary] = StreamOf(kPrimary, 0, true);
    primary.identity.local_world_size = 2;
    aggregator_->AddStream(primary);
    aggregator_->DefineShape(kPrimary, 1, {"loss"});
    Log(kPrimary, 1, 1);
    Log(kPrimary, 2, 1);
    EXPECT_THAT(Advance(), ::testing::IsEmpty());
  }
  // Advances, and returns the new rows.
  std::vector<RunRow> Advance() {
    const size_t before = stored_.rows.size();
    EXPECT_TRUE(stored_.Store(aggregator_->Advance(now_)));
    return {stored_.rows.begin() + static_cast<ptrdiff_t>(before), stored_.rows.end()};
  }
  uint64_t late(int64_t stream) { return stored_.consumed[stream].late_rows; }

  StoredRun stored_;
  std::unique_ptr<RunAggregator> aggregator_;
  std::map<int64_t, model::Stream> streams_;
  std::map<int64_t, uint64_t> next_seq_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

}  // namespace ranklog::aggregate

#endif  // TESTS_SERVICE_AGGREGATE_RUN_AGGREGATOR_FIXTURE_H_
