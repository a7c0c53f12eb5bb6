#include "tests/integration/counting_job.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace ranklog::testing {

CountingJob::CountingJob(const Node& node, const std::string& job, uint64_t rows,
                         std::map<std::string, std::string> environment,
                         std::vector<std::string> wrapper, size_t metrics)
    : node_(node), job_(job), counter_(MapRankCounter(dir_.File("counter"))) {
  counter_->limit.store(rows);
  ChildProcess::Options options;
  options.environment = node.RankEnvironment(job, 0, 0, 1, 1);
  for (auto& [name, value] : environment) options.environment[name] = value;
  options.unset = {"WANDB_API_KEY", "XDG_RUNTIME_DIR"};
  std::vector<std::string> args = std::move(wrapper);
  args.insert(args.end(), {COUNTING_RANK, dir_.File("counter"), std::to_string(metrics)});
  rank_ = std::make_unique<ChildProcess>(args, options);
}

CountingJob::~CountingJob() {
  rank_.reset();
  munmap(counter_, sizeof(*counter_));
}

bool CountingJob::WaitForReturned(uint64_t rows) const {
  return WaitFor([&] { return returned() >= rows; });
}

int CountingJob::Finish() {
  counter_->stop.store(1);
  return rank_->Wait().value_or(-SIGKILL);
}

model::Stream CountingJob::Stream() const {
  const auto reader = node_.Reader();
  const auto streams = reader->Streams(node_.GetRun(job_).id);
  EXPECT_TRUE(streams.ok() && streams->size() == 1) << "job " << job_;
  return streams.ok() && !streams->empty() ? streams->front() : model::Stream();
}

uint64_t CountingJob::ExpectEveryReturnedRowOnce() const {
  const model::Stream stream = Stream();
  const auto reader = node_.Reader();
  uint64_t rows = 0;
  uint64_t wrong = 0;
  while (true) {
    const auto batches = reader->StreamBatches(stream.id, rows, 4 << 20);
    EXPECT_TRUE(batches.ok()) << batches.status();
    if (!batches.ok() || batches->empty()) break;
    for (const storage::StoredBatch& stored : *batches) {
      const uint64_t wrong_before = wrong;
      model::ForEachRow(
          stored.batch, [&](const model::Block& block, size_t row, uint64_t position) {
            const double expected = static_cast<double>(position - 1);
            const size_t width = block.values.size() / block.steps.size();
            const auto first = block.values.begin() + static_cast<ptrdiff_t>(row * width);
            const bool all = std::all_of(first, first + static_cast<ptrdiff_t>(width),
                                         [&](double value) { return value == expected; });
            if (!all || position != ++rows) ++wrong;
          });
      EXPECT_EQ(wrong, wrong_before)
          << "rows " << stored.batch.first << " to " << stored.batch.last;
    }
  }
  EXPECT_EQ(stream.durable_seq, rows);
  EXPECT_GE(rows, returned());
  EXPECT_LE(rows, returned() + 1);
  if (rows < returned()) wrong += returned() - rows;
  if (rows > returned() + 1) wrong += rows - returned() - 1;
  return wrong;
}

}  // namespace ranklog::testing
