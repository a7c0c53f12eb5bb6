// With thousands of ended runs in the store, the daemon and the commands are as fast as with few.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "service/base/clock.h"
#include "tests/integration/node.h"
#include "tests/integration/processes.h"
#include "tests/support/figures.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kProcesses = 8;
constexpr int kRunsInCi = 400;

class ManyRunsTest : public ::testing::Test {
 protected:
  void MakeRuns(int runs) {
    std::vector<ChildProcess> ranks;
    const int each = runs / kProcesses;
    for (int i = 0; i < kProcesses; ++i) {
      ChildProcess::Options options;
      options.environment = node_.RankEnvironment("unused", 0, 0, 1, 1);
      options.unset = {"WANDB_API_KEY"};
      ranks.emplace_back(std::vector<std::string>{MANY_RUNS_RANK, "run", std::to_string(i * each),
                                                  std::to_string((i + 1) * each - 1)},
                         options);
    }
    for (ChildProcess& rank : ranks) ASSERT_EQ(rank.Wait(absl::Minutes(20)), 0) << rank.Output();
  }
  // Returns the seconds that a command takes. It must succeed and print `text`.
  double TimeOf(std::vector<std::string> args, const std::string& text) {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()}};
    const absl::Time start = SteadyNow();
    const Finished finished = RunToEnd(args, options);
    const double seconds = absl::ToDoubleSeconds(SteadyNow() - start);
    EXPECT_EQ(finished.code, 0) << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(text));
    return seconds;
  }
  // Returns the user and system time so far.
  double CpuSeconds() {
    const pid_t pid = node_.daemon().pid();
    const double ticks = atof(StatField(pid, 11).c_str()) + atof(StatField(pid, 12).c_str());
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  Node node_;
};

TEST_F(ManyRunsTest, EndedRunsCostLittle) {
  const int runs = getenv("RANKLOG_SOAK") != nullptr ? 10'000 : kRunsInCi;
  node_.Start();
  const absl::Time start = SteadyNow();
  MakeRuns(runs);
  const double making = absl::ToDoubleSeconds(SteadyNow() - start);
  const std::string last = "run-" + std::to_string(runs - 1);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(last); }));
  const auto stored = node_.Reader()->Runs();
  ASSERT_TRUE(stored.ok());
  EXPECT_THAT(*stored, SizeIs(runs));
  EXPECT_EQ(node_.Terminate(), 0);

  const absl::Time begin = SteadyNow();
  node_.Start();
  const double starting = absl::ToDoubleSeconds(SteadyNow() - begin);
  const double json = TimeOf({"runs", "--json"}, last);
  const double table = TimeOf({"runs"}, last);
  const double status = TimeOf({"status"}, std::to_string(runs));
  const double show = TimeOf({"show", last}, last);
  // The CPU share of the idle daemon, over some seconds.
  const double cpu = CpuSeconds();
  const absl::Time idle = SteadyNow();
  WaitFor([] { return false; }, absl::Seconds(runs > 1000 ? 20 : 2));
  const double share = (CpuSeconds() - cpu) / absl::ToDoubleSeconds(SteadyNow() - idle);
  const std::string memory = ReadProc(node_.daemon().pid(), "status");
  printf("%d runs, made in %.1f s; %s\n", runs, making,
         memory.substr(memory.find("VmRSS"), 24).c_str());
  // Users wait for a second without doubt. `show` reads one run only.
  ReportAtMost("start of the daemon", starting, "s", 1);
  ReportAtMost("runs", table, "s", 1);
  ReportAtMost("runs --json", json, "s", 1);
  ReportAtMost("status", status, "s", 1);
  ReportAtMost("show", show, "s", 0.5);
  // One tick of the clock (10 ms) in 5 s.
  ReportAtMost("idle daemon", share * 100, "% of a core", 0.2);
}

}  // namespace
}  // namespace ranklog::testing
