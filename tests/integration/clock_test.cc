// The machine's clock is set back and forward by a day while a job logs. Nothing waits for it,
// nothing is lost, and no printed time is negative.

#include "absl/time/clock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// The clock of all programs that run with `environment`.
class SettableClock {
 public:
  SettableClock() {
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(int64_t)) != 0) abort();
    void* const page = mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED) abort();
    std::filesystem::create_symlink(SET_CLOCK, library_);
    offset_ns_ = static_cast<std::atomic<int64_t>*>(page);
  }
  ~SettableClock() { munmap(offset_ns_, sizeof(int64_t)); }

  void Set(absl::Duration off) { offset_ns_->store(absl::ToInt64Nanoseconds(off)); }
  std::map<std::string, std::string> Environment() const {
    return {{"LD_PRELOAD", library_}, {"RANKLOG_TEST_CLOCK", path_}};
  }

 private:
  TempDir dir_;
  const std::string path_ = dir_.File("clock");
  // a path in LD_PRELOAD cannot contain a space
  const std::string library_ = dir_.File("set_clock.so");
  std::atomic<int64_t>* offset_ns_ = nullptr;
};

class ClockTest : public ::testing::Test {
 protected:
  ClockTest() {
    auto environment = clock_.Environment();
    environment["WANDB_API_KEY"] = std::string(40, 'k');
    node_.StartWith(environment);
  }

  ChildProcess StartRank(int rank) {
    auto environment = clock_.Environment();
    environment.merge(WandbAt(wandb_.url()));
    return node_.StartRank("job", rank, rank, 2, 2, {"1000000", "0", "1000", StopFile()},
                           environment);
  }
  std::string StopFile() const { return dir_.File("stop"); }
  std::string Cli(std::vector<std::string> args) {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.environment = clock_.Environment();
    options.environment["RANKLOG_ADDRESS"] = node_.address();
    const Finished finished = RunToEnd(args, options);
    EXPECT_EQ(finished.code, 0) << finished.output;
    return finished.output;
  }
  size_t Delivered() { return wandb_.run("job").history.size(); }
  // Checks that rows still arrive, much sooner than in a day.
  bool RowsGoOn() {
    const size_t before = Delivered();
    return WaitFor([&] { return Delivered() > before + 100; });
  }
  // Checks that the latest row has the time of the clock, which is wrong by `off`.
  bool RowsHaveTheTime(absl::Duration off) {
    const nlohmann::json row = ParseExtendedJson(wandb_.run("job").history.back());
    const absl::Time time = absl::UnixEpoch() + absl::Seconds(row["_timestamp"].get<double>());
    return absl::AbsDuration(time - (absl::Now() + off)) < absl::Minutes(10);
  }
  // As the ended rank says. gRPC may have printed lines before.
  static int RowsLogged(const ChildProcess& rank) {
    const std::string said = rank.Output();
    int rows = 0;
    const size_t at = std::min(said.find("logged "), said.size());
    EXPECT_EQ(sscanf(said.c_str() + at, "logged %d, durable", &rows), 1) << said;
    return rows;
  }
  void ExpectSaneTimes() {
    for (const std::string& shown : {Cli({"status"}), Cli({"runs"}), Cli({"show", "latest"})}) {
      EXPECT_THAT(shown, Not(::testing::ContainsRegex(" -[0-9]+(\\.[0-9]+)?( ?[a-z]|$)"))) << shown;
    }
  }

  TempDir dir_;
  SettableClock clock_;
  FakeWandb wandb_;
  Node node_{{"--transmit-interval", "50ms"}};
};

TEST_F(ClockTest, DayJumpsLoseAndDelayNothing) {
  ChildProcess primary = StartRank(0);
  ChildProcess other = StartRank(1);
  ASSERT_TRUE(RowsGoOn());
  for (const int hours : {-24, 0, 24, -24}) {
    SCOPED_TRACE(std::to_string(hours) + " hours off");
    clock_.Set(absl::Hours(hours));
    ASSERT_TRUE(RowsGoOn());
    ASSERT_TRUE(WaitFor([&] { return RowsHaveTheTime(absl::Hours(hours)); }));
    ExpectSaneTimes();
  }
  close(open(StopFile().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(primary.Wait(), 0) << primary.Output();
  ASSERT_EQ(other.Wait(), 0) << other.Output();
  ASSERT_TRUE(
      wandb_.WaitFor([](const auto& runs) { return runs.at("job").complete; }, absl::Seconds(60)));
  ExpectSaneTimes();
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
  EXPECT_EQ(node_.GetRun("job").late_rows, 0u);
  const int rows = RowsLogged(primary);
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  const FakeWandb::Run run = wandb_.run("job");
  ASSERT_THAT(run.history, SizeIs(rows));
  for (int step = 0; step < rows; ++step) {
    const nlohmann::json row = ParseExtendedJson(run.history[step]);
    ASSERT_EQ(row["_step"], step);
    ASSERT_EQ(row["loss"], step);
    ASSERT_GE(row["_runtime"].get<double>(), 0) << run.history[step];
  }
  EXPECT_GE(ParseExtendedJson(run.summary)["_runtime"].get<double>(), 0);
}

TEST_F(ClockTest, RanksReconnectAfterJumpWithoutDaemon) {
  ChildProcess primary = StartRank(0);
  ChildProcess other = StartRank(1);
  ASSERT_TRUE(RowsGoOn());
  for (const int hours : {-24, 24}) {
    SCOPED_TRACE(std::to_string(hours) + " hours off");
    node_.Kill();
    clock_.Set(absl::Hours(hours));
    auto environment = clock_.Environment();
    environment["WANDB_API_KEY"] = std::string(40, 'k');
    node_.StartWith(environment);
    ASSERT_TRUE(RowsGoOn());
  }
  close(open(StopFile().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(primary.Wait(), 0) << primary.Output();
  ASSERT_EQ(other.Wait(), 0) << other.Output();
  ASSERT_TRUE(
      wandb_.WaitFor([](const auto& runs) { return runs.at("job").complete; }, absl::Seconds(60)));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
  EXPECT_EQ(node_.GetRun("job").late_rows, 0u);
  const int rows = RowsLogged(primary);
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(wandb_.run("job").history, SizeIs(rows));
}

// Two starts under one id each left a ring. The wall clock of the second is behind.
TEST_F(ClockTest, SetBackBetweenStartsKeepsOrder) {
  node_.Kill();
  const auto start = [&](const std::string& rows, const std::string& first_step) {
    auto environment = clock_.Environment();
    environment["RANKLOG_DESTINATIONS"] = "local";
    environment["RANKLOG_FINISH_TIMEOUT_MS"] = "50";
    environment["RANKLOG_RESUME"] = "allow";
    return node_.StartRank("job", 0, 0, 1, 1, {rows, "0", "0", "none", first_step}, environment)
        .Wait();
  };
  EXPECT_EQ(start("20", "0"), 3) << "not durable";
  clock_.Set(absl::Hours(-24));
  EXPECT_EQ(start("30", "20"), 3);
  node_.StartWith(clock_.Environment());
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job") && node_.GetRun("job").rows >= 20; }));
  EXPECT_EQ(node_.GetRun("job").rows, 50u);
  EXPECT_EQ(node_.GetRun("job").late_rows, 0u);
  EXPECT_EQ(node_.GetRun("job").last_step, 49);
  Cli({"verify", "job"});
}

}  // namespace
}  // namespace ranklog::testing
