// Sizes that a node may see: a backlog of millions of rows, and 64 ranks at one daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

namespace ranklog::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool Soak() { return getenv("RANKLOG_SOAK") != nullptr; }

// MiB, by a line of /proc/PID/status.
double MemoryOf(pid_t pid, const std::string& line) {
  const std::string status = ReadProc(pid, "status");
  const size_t at = status.find(line);
  return at == std::string::npos ? 0 : atof(status.c_str() + at + line.size() + 1) / 1024;
}

// A tracker that takes connections and never answers, then is there.
TEST(ManyRowsTest, ABacklogLiesOnDiskAndDrainsOnce) {  // S17, S18
  const uint64_t rows = Soak() ? 10'000'000 : kSanitized ? 50'000 : 500'000;
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

  // A daemon that starts anew has not yet learned to wait for the tracker.
  EXPECT_EQ(node.Terminate(), 0);
  away.reset();
  FakeWandb wandb(port);
  const absl::Time start = SteadyNow();
  node.Start();
  ASSERT_TRUE(wandb.WaitFor(
      [](const auto& runs) { return runs.count("job") != 0 && runs.at("job").complete; },
      absl::Minutes(10)));
  const double seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  printf(
      "%llu rows: at most %.1f MiB while they gathered; drained in %.1f s, %.0f rows/s, at most "
      "%.1f MiB\n",
      static_cast<unsigned long long>(rows), before, seconds, static_cast<double>(rows) / seconds,
      MemoryOf(node.daemon().pid(), "VmHWM:"));
  if (!kSanitized) {
    EXPECT_LT(before, 64);
  }

  EXPECT_THAT(wandb.errors(), IsEmpty());
  const FakeWandb::Run run = wandb.run("job");
  ASSERT_THAT(run.history, SizeIs(rows));
  for (uint64_t step = 0; step < rows; ++step) {
    ASSERT_EQ(ParseExtendedJson(run.history[step])["n"], step);
  }
}

// All at once, as fast as the daemon takes it.
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
  printf(
      "64 ranks, %llu rows of %zu metrics each: durable after %.1f s; the daemon took at most "
      "%.1f MiB\n",
      static_cast<unsigned long long>(rows), metrics, absl::ToDoubleSeconds(SteadyNow() - start),
      MemoryOf(node.daemon().pid(), "VmHWM:"));
  for (const auto& job : jobs) job->ExpectEveryReturnedRowOnce();
}

TEST(ManyRowsTest, EveryRowOf64RanksIsThereOnce) {
  LogFrom64Ranks(Soak() ? 100'000 : kSanitized ? 200 : 5'000, 1);
}

TEST(ManyRowsTest, EveryRowOf64RanksWithAThousandMetricsIsThereOnce) {
  LogFrom64Ranks(Soak() ? 1'000 : kSanitized ? 5 : 50, 1'000);
}

}  // namespace
}  // namespace ranklog::testing
