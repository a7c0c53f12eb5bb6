// Sizes that a node may see: a backlog of millions of rows, and 64 ranks at one daemon, of 64 jobs
// or of one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "service/base/clock.h"
#include "tests/integration/counting_job.h"
#include "tests/integration/processes.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/figures.h"

namespace ranklog::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// In MiB: the memory that a daemon may use on a training node, whatever the network does.
constexpr double kMostMemory = 64;

bool Soak() { return getenv("RANKLOG_SOAK") != nullptr; }

// Returns the MiB in a line of /proc/PID/status.
double MemoryOf(pid_t pid, const std::string& line) {
  const std::string status = ReadProc(pid, "status");
  const size_t at = status.find(line);
  return at == std::string::npos ? 0 : atof(status.c_str() + at + line.size() + 1) / 1024;
}

// The tracker accepts connections and never answers, then it comes back.
TEST(ManyRowsTest, DiskBacklogDrainsExactlyOnce) {  // S17, S18
  const uint64_t rows = Soak() ? 10'000'000 : 100'000;
  auto away = std::make_unique<DeadPort>(DeadPort::kListens);
  const int port = away->number();
  Node node({}, {{"WANDB_API_KEY", std::string(40, 'k')}});
  node.Start();
  CountingJob job(node, "job", rows, WandbAt(away->url()));
  ASSERT_TRUE(WaitFor([&] { return job.returned() == rows; }, absl::Minutes(10)));
  ASSERT_EQ(job.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }, absl::Minutes(10)));
  ASSERT_EQ(node.GetRun("job").rows, rows);
  const double before = MemoryOf(node.daemon().pid(), "VmHWM:");

  // A restarted daemon has not yet learned to wait for the tracker.
  EXPECT_EQ(node.Terminate(), 0);
  away.reset();
  FakeWandb wandb(port);
  const absl::Time start = SteadyNow();
  node.Start();
  ASSERT_TRUE(wandb.WaitForEnd("job", absl::Minutes(10)));
  const double seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  printf("%llu rows, drained in %.1f s\n", static_cast<unsigned long long>(rows), seconds);
  ReportAtMost("memory while rows gather", before, "MiB", kMostMemory);
  // The requests to the tracker need extra memory.
  ReportAtMost("memory while they drain", MemoryOf(node.daemon().pid(), "VmHWM:"), "MiB", 72);
  // At this rate, a week's backlog of 16 rows per second drains within 4 minutes.
  ReportAtLeast("drain", static_cast<double>(rows) / seconds, "rows/s", 50'000);
  EXPECT_LE(before, kMostMemory);

  EXPECT_THAT(wandb.errors(), IsEmpty());
  const FakeWandb::Run run = wandb.run("job");
  ASSERT_THAT(run.history, SizeIs(rows));
  uint64_t wrong = 0;
  for (uint64_t step = 0; step < rows; ++step) {
    if (ParseExtendedJson(run.history[step])["n"] != step) ++wrong;
  }
  EXPECT_EQ(wrong, 0u);
  ReportAtMost("rows lost or doubled at the tracker", static_cast<double>(wrong), "", 0);
}

// All ranks log at once, as fast as the daemon takes it. Each rank has its own job.
void LogFrom64Ranks(uint64_t rows, size_t metrics) {
  Node node;
  node.Start();
  const absl::Time start = SteadyNow();
  std::vector<std::unique_ptr<CountingJob>> jobs;
  for (int rank = 0; rank < 64; ++rank) {
    jobs.push_back(std::make_unique<CountingJob>(
        node, "job-" + std::to_string(rank), rows,
        std::map<std::string, std::string>{{"RANKLOG_FINISH_TIMEOUT_MS", "120000"}},
        std::vector<std::string>(), metrics));
  }
  for (const auto& job : jobs) {
    ASSERT_TRUE(WaitFor([&] { return job->returned() == rows; }, absl::Minutes(5)));
  }
  for (const auto& job : jobs) ASSERT_EQ(job->Finish(), 0);
  const std::string which =
      ", 64 jobs, " + std::to_string(metrics) + (metrics == 1 ? " metric" : " metrics");
  const double seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  Report("durable" + which, 64 * static_cast<double>(rows) / seconds, "rows/s");
  Report("memory" + which, MemoryOf(node.daemon().pid(), "VmHWM:"), "MiB");
  uint64_t wrong = 0;
  for (const auto& job : jobs) wrong += job->ExpectEveryReturnedRowOnce();
  ReportAtMost("rows lost or doubled" + which, static_cast<double>(wrong), "", 0);
}

TEST(ManyRowsTest, StoresRowsOf64RanksOnce) { LogFrom64Ranks(Soak() ? 100'000 : 5'000, 1); }

TEST(ManyRowsTest, StoresThousandMetricRowsOnce) { LogFrom64Ranks(Soak() ? 1'000 : 50, 1'000); }

constexpr int kRanksOfOneJob = 64;

// Returns how many rows of logging_rank are not in the store once, in order, with their values.
uint64_t WrongRowsOfRank(storage::StoreReader& reader, const model::Stream& stream, uint64_t rows) {
  uint64_t seen = 0;
  uint64_t wrong = 0;
  while (true) {
    const auto batches = reader.StreamBatches(stream.id, seen, 4 << 20);
    EXPECT_TRUE(batches.ok()) << batches.status();
    if (!batches.ok() || batches->empty()) break;
    for (const storage::StoredBatch& stored : *batches) {
      model::ForEachRow(
          stored.batch, [&](const model::Block& block, size_t row, uint64_t position) {
            const uint32_t rank = stream.key.rank;
            const bool right = block.steps[row] == static_cast<int64_t>(seen) &&
                               block.values[2 * row] == 1000.0 * rank + static_cast<double>(seen) &&
                               block.values[2 * row + 1] == rank;
            if (position != ++seen || !right) ++wrong;
          });
    }
  }
  return wrong + (seen < rows ? rows - seen : seen - rows);
}

struct LinesOfRun {
  uint64_t wrong = 0;    // missing, duplicated, or not rank 0's row of their step
  uint64_t partial = 0;  // their statistics do not count each rank once
};

LinesOfRun ReadLines(storage::StoreReader& reader, const model::Run& run, uint64_t rows) {
  LinesOfRun lines;
  const auto shapes = reader.RunShapes(run.id);
  EXPECT_TRUE(shapes.ok()) << shapes.status();
  if (!shapes.ok()) return {rows, rows};
  uint64_t seen = 0;
  while (true) {
    const auto batches = reader.RunBatches(run.id, seen, 4 << 20);
    EXPECT_TRUE(batches.ok()) << batches.status();
    if (!batches.ok() || batches->empty()) break;
    for (const storage::StoredBatch& stored : *batches) {
      model::ForEachRow(
          stored.batch, [&](const model::Block& block, size_t row, uint64_t position) {
            const std::vector<std::string>& keys = (*shapes)[block.shape];
            const auto value = [&](const std::string& key) {
              const auto at = std::find(keys.begin(), keys.end(), key) - keys.begin();
              const auto column = static_cast<size_t>(at);
              return column == keys.size() ? NAN : block.values[row * keys.size() + column];
            };
            const auto step = static_cast<double>(seen);
            const bool right = position == seen && block.steps[row] == static_cast<int64_t>(seen) &&
                               value("loss") == step && value("shared") == 0;
            // A missing or duplicated rank changes the mean by 7 or more.
            constexpr double kLast = kRanksOfOneJob - 1;
            const bool all = std::abs(value("rank_mean/loss") - (500 * kLast + step)) < 1e-3 &&
                             value("rank_min/loss") == step &&
                             value("rank_max/loss") == 1000 * kLast + step;
            if (!right) ++lines.wrong;
            if (!all) ++lines.partial;
            ++seen;
          });
    }
  }
  lines.wrong += seen < rows ? rows - seen : seen - rows;
  return lines;
}

TEST(ManyRowsTest, AggregatesRowsOfOneJobOnce) {  // S2
  const uint64_t rows = Soak() ? 100'000 : 1'000;
  Node node;
  node.Start();
  const absl::Time start = SteadyNow();
  std::vector<ChildProcess> ranks;
  for (int rank = 0; rank < kRanksOfOneJob; ++rank) {
    ranks.push_back(node.StartRank("job", rank, rank, kRanksOfOneJob, kRanksOfOneJob,
                                   {std::to_string(rows)},
                                   {{"RANKLOG_FINISH_TIMEOUT_MS", "120000"}}));
  }
  for (ChildProcess& rank : ranks) ASSERT_EQ(rank.Wait(absl::Minutes(5)), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }, absl::Minutes(5)));
  const double seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  const std::string which = ", 64 ranks of one job";
  Report("aggregated" + which, kRanksOfOneJob * static_cast<double>(rows) / seconds, "rows/s");
  Report("memory" + which, MemoryOf(node.daemon().pid(), "VmHWM:"), "MiB");

  const model::Run run = node.GetRun("job");
  const auto reader = node.Reader();
  const auto streams = reader->Streams(run.id);
  ASSERT_TRUE(streams.ok()) << streams.status();
  ASSERT_THAT(*streams, SizeIs(kRanksOfOneJob));
  const LinesOfRun lines = ReadLines(*reader, run, rows);
  uint64_t wrong = lines.wrong;
  for (const model::Stream& stream : *streams) {
    wrong += WrongRowsOfRank(*reader, stream, rows);
    EXPECT_EQ(stream.aggregated_seq, rows) << "rank " << stream.key.rank;
  }
  EXPECT_EQ(wrong, 0u);
  // A step waits for each rank. A row that nevertheless comes too late is counted.
  EXPECT_LE(lines.partial, run.late_rows);
  ReportAtMost("rows lost or doubled" + which, static_cast<double>(wrong), "", 0);
  Report("late rows" + which, static_cast<double>(run.late_rows), "");
}

}  // namespace
}  // namespace ranklog::testing
