// Runs with WANDB_MODE=offline: directories for `wandb sync`. S15.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/wandb_log/log_file.h"
#include "tests/integration/node.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using wandb_internal::Record;

std::vector<fs::path> Logs(const std::string& wandb_dir) {
  std::vector<fs::path> logs;
  if (!fs::exists(wandb_dir + "/wandb")) return logs;
  for (const auto& run : fs::directory_iterator(wandb_dir + "/wandb")) {
    if (run.is_symlink()) continue;
    for (const auto& file : fs::directory_iterator(run)) {
      if (file.path().extension() == ".wandb") logs.push_back(file.path());
    }
  }
  return logs;
}

std::vector<Record> RecordsOf(const fs::path& log) {
  std::vector<Record> records;
  const auto reader = wandb_log::LogReader::Open(log);
  while (reader.ok()) {
    const auto next = (*reader)->Next();
    if (!next.ok() || !next->has_value()) break;
    EXPECT_TRUE(records.emplace_back().ParseFromString(**next));
  }
  return records;
}

// The values of `loss`, by step, in the order of the log.
std::vector<std::pair<int64_t, std::string>> Losses(const std::vector<Record>& records) {
  std::vector<std::pair<int64_t, std::string>> losses;
  for (const Record& record : records) {
    for (const auto& item : record.history().item()) {
      if (item.key() == "loss")
        losses.emplace_back(record.history().step().num(), item.value_json());
    }
  }
  return losses;
}

std::map<std::string, std::string> Offline(const std::string& wandb_dir) {
  return {{"WANDB_MODE", "offline"},
          {"WANDB_DIR", wandb_dir},
          {"WANDB_PROJECT", "p"},
          {"RANKLOG_PROJECT", ""}};
}

TEST(OfflineTest, ProgramThatKnowsOnlyWandbsSettingsGetsADirectory) {
  Node node({"--transmit-interval", "100ms"});
  node.Start();
  const TempDir dir;
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10", "3"}, Offline(dir.path()));
  EXPECT_EQ(rank.Wait(), 0);
  ASSERT_TRUE(WaitFor([&] {
    const auto logs = Logs(dir.path());
    return logs.size() == 1 && !RecordsOf(logs[0]).empty() && RecordsOf(logs[0]).back().has_exit();
  }));
  const std::vector<Record> records = RecordsOf(Logs(dir.path())[0]);
  EXPECT_EQ(records.back().exit().exit_code(), 3);
  EXPECT_THAT(Losses(records), SizeIs(10));
  EXPECT_EQ(records[1].run().project(), "p");
}

TEST(OfflineTest, KilledDaemonWritesEachRowOnce) {
  constexpr int kRows = 2000;
  Node node({"--transmit-interval", "1ms"});
  const TempDir dir;
  ChildProcess rank =
      node.StartRank("job", 0, 0, 1, 1, {std::to_string(kRows), "0", "1000"}, Offline(dir.path()));
  std::mt19937 random(std::random_device{}());
  for (int kill = 0; kill < 8; ++kill) {
    node.Start();
    const auto rows = [&] {
      const auto logs = Logs(dir.path());
      return logs.empty() ? size_t{0} : Losses(RecordsOf(logs[0])).size();
    };
    const size_t before = rows();
    ASSERT_TRUE(WaitFor([&] { return rows() > before || before == kRows; }));
    absl::SleepFor(absl::Milliseconds(random() % 30));
    node.Kill();
  }
  node.Start();
  EXPECT_EQ(rank.Wait(), 0);
  ASSERT_TRUE(WaitFor([&] {
    const std::vector<Record> records = RecordsOf(Logs(dir.path())[0]);
    return !records.empty() && records.back().has_exit();
  }));
  ASSERT_THAT(Logs(dir.path()), SizeIs(1));
  const auto losses = Losses(RecordsOf(Logs(dir.path())[0]));
  ASSERT_THAT(losses, SizeIs(kRows));
  for (int row = 0; row < kRows; ++row) {
    EXPECT_EQ(losses[static_cast<size_t>(row)], std::make_pair(int64_t{row}, std::to_string(row)));
  }
}

class LocalRunTest : public ::testing::TestWithParam<bool> {};

TEST_P(LocalRunTest, IsWrittenLater) {
  const bool by_the_daemon = GetParam();
  Node node({"--transmit-interval", "100ms"});
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"});
  EXPECT_EQ(rank.Wait(), 0);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  if (!by_the_daemon) {
    EXPECT_EQ(node.Terminate(), 0);
  }
  const TempDir dir;
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {RANKLOG_CLI, by_the_daemon ? "--address" : "--state-dir",
                               by_the_daemon ? node.address() : node.state_dir()});
    return RunToEnd(
        args,
        {.environment = {{"WANDB_DIR", dir.path()}}, .unset = {"WANDB_API_KEY"}, .output = ""});
  };
  const Finished sync = run({"sync", "job", "--to", "offline"});
  EXPECT_EQ(sync.code, 0) << sync.output;
  ASSERT_THAT(Logs(dir.path()), SizeIs(1));
  const std::vector<Record> records = RecordsOf(Logs(dir.path())[0]);
  EXPECT_THAT(Losses(records), SizeIs(10));
  EXPECT_TRUE(records.back().has_exit());
  const Finished verify = run({"verify", "job"});
  EXPECT_EQ(verify.code, 0) << verify.output;
  EXPECT_THAT(verify.output, HasSubstr("10 rows written to " + dir.path() + "/wandb/offline-run-"));
}

INSTANTIATE_TEST_SUITE_P(ByTheDaemon, LocalRunTest, ::testing::Bool());

TEST(OfflineTest, RowsWaitForADirectoryThatCanBeWritten) {
  Node node({"--transmit-interval", "100ms"});
  node.Start();
  const TempDir dir;
  std::ofstream(dir.File("wandb")) << "a file";
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"}, Offline(dir.path()));
  EXPECT_EQ(rank.Wait(), 0);
  ASSERT_TRUE(WaitFor([&] {
    const model::Run run = node.GetRun("job");
    if (run.id == 0) return false;
    const auto deliveries = node.Reader()->Deliveries(run.id);
    return deliveries.ok() && deliveries->size() == 1 &&
           deliveries->front().last_error.find(dir.File("wandb")) != std::string::npos;
  }));
  fs::remove(dir.File("wandb"));
  ASSERT_TRUE(WaitFor([&] {
    const auto logs = Logs(dir.path());
    return logs.size() == 1 && Losses(RecordsOf(logs[0])).size() == 10;
  }));
}

}  // namespace
}  // namespace ranklog::testing
