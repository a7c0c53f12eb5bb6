// A rank does not notice a stopped daemon (SIGSTOP): no call waits or fails. When the daemon
// continues, every row is there once.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/time/time.h"
#include "service/base/clock.h"
#include "tests/integration/node.h"
#include "tests/support/figures.h"

namespace ranklog::testing {
namespace {

constexpr int64_t kRowsPerSecond = 20'000;  // of timed_rank

// Checks the rows of the job's only stream: they are numbered from 1, and row i has the value i -
// 1.
void ExpectEveryRowOnce(const Node& node, uint64_t rows) {
  const auto reader = node.Reader();
  const auto streams = reader->Streams(node.GetRun("job").id);
  ASSERT_TRUE(streams.ok());
  ASSERT_EQ(streams->size(), 1u);
  uint64_t seen = 0;
  while (seen < rows) {
    const auto batches = reader->StreamBatches(streams->front().id, seen, 4 << 20);
    ASSERT_TRUE(batches.ok()) << batches.status();
    ASSERT_FALSE(batches->empty()) << seen << " of " << rows << " rows";
    uint64_t wrong = 0;
    for (const storage::StoredBatch& stored : *batches) {
      model::ForEachRow(
          stored.batch, [&](const model::Block& block, size_t row, uint64_t position) {
            const size_t width = block.values.size() / block.steps.size();
            const auto first = block.values.begin() + static_cast<ptrdiff_t>(row * width);
            const auto n = static_cast<double>(position - 1);
            const auto last = first + static_cast<ptrdiff_t>(width);
            if (position != ++seen || std::find(first, last, n) == last) ++wrong;
          });
    }
    ASSERT_EQ(wrong, 0u);
  }
  EXPECT_EQ(streams->front().durable_seq, rows);
  EXPECT_EQ(streams->front().losses.total(), 0u);
  EXPECT_EQ(node.GetRun("job").rows, rows);
}

TEST(StoppedDaemonTest, LogIgnoresAStoppedDaemon) {
  const int seconds = getenv("RANKLOG_SOAK") != nullptr ? 30 : 2;
  const uint64_t rows = static_cast<uint64_t>(2 * seconds * kRowsPerSecond);
  TempDir dir;
  Node node;
  node.Start();
  ChildProcess::Options options;
  options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
  options.environment["RANKLOG_SPOOL_BYTES"] = std::to_string(64 << 20);
  options.environment["RANKLOG_FINISH_TIMEOUT_MS"] = "60000";
  options.unset = {"WANDB_API_KEY"};
  ChildProcess rank({TIMED_RANK, std::to_string(rows), dir.File("half")}, options);
  const auto limit = absl::Seconds(60 + 4 * seconds);
  ASSERT_TRUE(WaitFor([&] { return access(dir.File("half").c_str(), F_OK) == 0; }, limit));
  node.daemon().Signal(SIGSTOP);
  const absl::Time stopped = SteadyNow();
  ASSERT_TRUE(WaitFor([&] { return access(dir.File("half.end").c_str(), F_OK) == 0; }, limit));
  const absl::Duration stood = SteadyNow() - stopped;
  node.daemon().Signal(SIGCONT);
  ASSERT_EQ(rank.Wait().value_or(-1), 0) << rank.Output();

  double init_us = 0;
  double finish_ms = 0;
  long log_ns[4] = {};
  long returned = 0;
  int durable = 0;
  long before[2] = {};
  long during[2] = {};
  ASSERT_EQ(sscanf(rank.Output().c_str(), "%lf %ld %ld %ld %ld %lf %ld %d\n%ld %ld %ld %ld",
                   &init_us, &log_ns[0], &log_ns[1], &log_ns[2], &log_ns[3], &finish_ms, &returned,
                   &durable, &before[0], &before[1], &during[0], &during[1]),
            12)
      << rank.Output();
  printf(
      "stopped for %.1f s: Log() at p50 %ld ns before, %ld ns meanwhile; at p99.9 %ld ns, %ld ns\n",
      absl::ToDoubleSeconds(stood), before[0], during[0], before[1], during[1]);
  // Both are some hundred ns; a busy machine adds as much.
  ReportAtMost("p99.9 of Log(), daemon stopped / before",
               static_cast<double>(during[1]) / static_cast<double>(before[1]), "times", 4);
  // A busy machine takes a thread off its core for tens of ms. A call that waited for the daemon
  // would take seconds.
  ReportAtMost("slowest Log()", static_cast<double>(log_ns[3]) * 1e-6, "ms", 1000);
  EXPECT_EQ(returned, static_cast<long>(rows));
  // No call waited for the daemon: all had returned before it continued.
  EXPECT_LT(log_ns[3], absl::ToInt64Nanoseconds(stood));
  EXPECT_EQ(durable, 1);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  ExpectEveryRowOnce(node, rows);
}

}  // namespace
}  // namespace ranklog::testing
