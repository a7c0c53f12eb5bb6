// What a job waits for when it starts, logs and ends, whatever the tracker and the daemon do. The
// results are a table, printed and kept beside the test's output. The test asserts the promises:
// Finish() keeps its deadline, and no row for which Log() returned true is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

// The second half is more than a socket holds, so a stopped daemon leaves a write unfinished.
constexpr long kTimedRows = 20'000;
constexpr double kDeadlineMs = 2000;

struct Backend {
  explicit Backend(const std::string& kind) {
    if (kind == "down" || kind == "blackhole") {
      port =
          std::make_unique<DeadPort>(kind == "blackhole" ? DeadPort::kListens : DeadPort::kRefuses);
      return;
    }
    wandb = std::make_unique<FakeWandb>();
    FakeWandb::Fault fault{.on = FakeWandb::Fault::On::kAny, .times = 1'000'000};
    if (kind == "refusing") fault.code = 403;
    if (kind == "10 s per answer")
      fault = {.on = fault.on,
               .times = fault.times,
               .code = 200,
               .act = true,
               .delay = absl::Seconds(10)};
    if (kind != "up") wandb->Inject(fault);
  }
  std::string url() const { return wandb ? wandb->url() : port->url(); }

  std::unique_ptr<FakeWandb> wandb;
  std::unique_ptr<DeadPort> port;
};

struct Timing {
  double init_us = 0;
  long log_ns[4] = {};  // p50, p99, p99.9, at most
  double finish_ms = 0;
  long returned = 0;
  int durable = 0;
};

// Parameters: the state of the tracker, and of the daemon.
class StartFinishTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(StartFinishTest, KeepsItsDeadlineAndLosesNothing) {  // S17, S18, S20, S21
  const std::string kind = std::get<0>(GetParam());
  const std::string daemon = std::get<1>(GetParam());
  Backend backend(kind);
  TempDir dir;
  Node node({}, {{"WANDB_API_KEY", std::string(40, 'k')}});
  if (daemon != "absent") node.Start();
  ChildProcess::Options options;
  options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
  options.environment.merge(WandbAt(backend.url()));
  options.environment["RANKLOG_FINISH_TIMEOUT_MS"] = std::to_string(static_cast<int>(kDeadlineMs));
  const absl::Time begin = absl::Now();
  ChildProcess rank({TIMED_RANK, std::to_string(kTimedRows), dir.File("half")}, options);
  ASSERT_TRUE(WaitFor([&] { return access(dir.File("half").c_str(), F_OK) == 0; }));
  if (daemon == "killed") node.Kill();
  if (daemon == "stopped") node.daemon().Signal(SIGSTOP);
  ASSERT_EQ(rank.Wait(absl::Seconds(30)).value_or(-1), 0)
      << "the rank hangs, or failed: " << rank.Output();
  const double gone_ms = absl::ToDoubleMilliseconds(absl::Now() - begin);

  Timing t;
  ASSERT_EQ(
      sscanf(rank.Output().c_str(), "%lf %ld %ld %ld %ld %lf %ld %d", &t.init_us, &t.log_ns[0],
             &t.log_ns[1], &t.log_ns[2], &t.log_ns[3], &t.finish_ms, &t.returned, &t.durable),
      8)
      << rank.Output();
  printf(
      "| %-15s | %-7s | %6.1f ms | %4ld ns | %6.1f us | %6.1f us | %6.1f us | %7.1f ms | %5.2f s "
      "| %s |\n",
      kind.c_str(), daemon.c_str(), t.init_us * 1e-3, t.log_ns[0], t.log_ns[1] * 1e-3,
      t.log_ns[2] * 1e-3, t.log_ns[3] * 1e-3, t.finish_ms, gone_ms * 1e-3,
      t.durable ? "durable" : "spooled");
  EXPECT_EQ(t.returned, kTimedRows);
  // It may exceed its deadline only by scheduling delays of a busy machine.
  EXPECT_LT(t.finish_ms, kDeadlineMs + 500);
  EXPECT_EQ(t.durable, daemon == "up" ? 1 : 0);

  // The rest of the rows is taken over.
  if (daemon == "stopped") node.daemon().Signal(SIGCONT);
  if (daemon == "absent" || daemon == "killed") node.Start();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  EXPECT_EQ(node.GetRun("job").rows, static_cast<uint64_t>(kTimedRows));
  EXPECT_EQ(node.GetRun("job").state, model::RunState::kFinished);
}

INSTANTIATE_TEST_SUITE_P(Backends, StartFinishTest,
                         ::testing::Combine(::testing::Values("up", "down", "refusing", "blackhole",
                                                              "10 s per answer"),
                                            ::testing::Values("up", "absent", "killed", "stopped")),
                         [](const auto& info) {
                           std::string name = absl::StrCat(std::get<0>(info.param), "_daemon_",
                                                           std::get<1>(info.param));
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace ranklog::testing
