// One run of several programs: processes that join the run of another one by its handle. S7, S56.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/integration/rank_counter.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class AttachTest : public ::testing::Test {
 protected:
  ~AttachTest() override { counter_->stop = 1; }

  ChildProcess Start(std::vector<std::string> args,
                     const std::map<std::string, std::string>& extra = {}) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
    options.environment["RANKLOG_DESTINATIONS"] = "local";
    for (const auto& [name, value] : extra) options.environment[name] = value;
    args.insert(args.begin(), {ATTACHING_RANK, dir_.File("counter")});
    return ChildProcess(args, options);
  }

  // What `finished` prints.
  std::string FinishedHandle() {
    ChildProcess maker = Start({"finished"});
    EXPECT_EQ(maker.Wait(), 0) << maker.Output();
    const std::string output = maker.Output();
    const size_t begin = output.find("handle ") + 7;
    return output.substr(begin, output.find(".\n", begin) - begin);
  }

  std::vector<model::Stream> Streams(const std::string& run) {
    const auto streams = node_.Reader()->Streams(node_.GetRun(run).id);
    EXPECT_TRUE(streams.ok());
    return streams.ok() ? *streams : std::vector<model::Stream>();
  }

  uint64_t StoredRows() {
    uint64_t rows = 0;
    for (const model::Stream& stream : Streams("job")) rows += stream.durable_seq;
    return rows;
  }

  // Each row as it was exported.
  std::vector<nlohmann::json> Exported() {
    const Finished exported =
        RunToEnd({RANKLOG_CLI, "export", "job", "--state-dir", node_.state_dir()});
    EXPECT_EQ(exported.code, 0);
    std::vector<nlohmann::json> rows;
    std::istringstream lines(exported.output);
    for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
    return rows;
  }

  void ExpectEnded(const std::string& run = "job") {
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(run); })) << run;
    EXPECT_EQ(counter_->refused, 0u);
  }

  TempDir dir_;
  RankCounter* const counter_ = MapRankCounter(dir_.File("counter"));
  Node node_;
};

class AttachWayTest : public AttachTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(AttachWayTest, RowsOfOneStepAreJoinedOverADaemonsDeath) {  // S7
  node_.Start();
  ChildProcess maker = Start({"steps", GetParam(), "2", "1000"});
  for (const uint64_t rows : {300u, 1200u}) {
    ASSERT_TRUE(WaitFor([&] { return counter_->returned >= rows; })) << maker.Output();
    node_.Kill();
    node_.Start();
  }
  ASSERT_EQ(maker.Wait(), 0) << maker.Output();
  ExpectEnded();
  const std::vector<nlohmann::json> rows = Exported();
  ASSERT_THAT(rows, SizeIs(1000));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["_step"], i);
    for (const char* key : {"maker", "child0", "child1"}) EXPECT_EQ(rows[i].value(key, -1), i);
  }
  std::set<int64_t> pids;
  for (const model::Stream& stream : Streams("job")) {
    EXPECT_EQ(stream.late_rows, 0u);
    pids.insert(stream.identity.pid);
  }
  EXPECT_THAT(pids, SizeIs(3));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
  EXPECT_TRUE(WaitFor([&] { return std::filesystem::is_empty(node_.spool_dir()); }));
}

INSTANTIATE_TEST_SUITE_P(Ways, AttachWayTest, ::testing::Values("argument", "variable"));

TEST_F(AttachTest, RowsWithoutStepsShareTheOpenStep) {
  node_.Start();
  ChildProcess maker = Start({"open", "argument", "2", "200"});
  ASSERT_EQ(maker.Wait(), 0) << maker.Output();
  ExpectEnded();
  EXPECT_EQ(StoredRows(), 600u);
  EXPECT_EQ(node_.GetRun("job").last_step, 599) << "each row has a step of its own";
}

TEST_F(AttachTest, RunLivesUntilItsAttachedProcessEnds) {
  node_.Start();
  ChildProcess maker = Start({"killed"});
  ASSERT_EQ(maker.Wait(), -SIGKILL) << maker.Output();
  ASSERT_TRUE(WaitFor([&] {
    for (const model::Stream& stream : Streams("job")) {
      if (stream.state == model::StreamState::kCrashed) return true;
    }
    return false;
  }));
  const uint64_t logged = counter_->returned;
  EXPECT_TRUE(WaitFor([&] { return counter_->returned > logged + 100; }));
  EXPECT_FALSE(node_.RunHasEnded("job"));
  counter_->stop = 1;
  ExpectEnded();
  const model::Run run = node_.GetRun("job");
  EXPECT_EQ(run.state, model::RunState::kCrashed);
  EXPECT_THAT(run.reason, HasSubstr("killed by signal 9"));
  EXPECT_EQ(StoredRows(), counter_->returned);
}

TEST_F(AttachTest, FinishedRunIsReopenedAndKeepsMakersExitCode) {
  node_.Start();
  const std::string handle = FinishedHandle();
  EXPECT_EQ(handle.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789_.-"),
            std::string::npos)
      << handle;
  ExpectEnded();
  ChildProcess joined = Start({"join", handle, "late", "5", "open"});
  ASSERT_EQ(joined.Wait(), 0) << joined.Output();
  ASSERT_TRUE(WaitFor([&] { return Streams("job").size() == 2; }));
  ExpectEnded();
  EXPECT_EQ(StoredRows(), 15u);
  const model::Run run = node_.GetRun("job");
  EXPECT_EQ(run.state, model::RunState::kFailed);
  EXPECT_EQ(run.exit_code, 3);
}

// It has no environment of the maker.
TEST_F(AttachTest, SettingsOfTheMakerCount) {
  node_.Start();
  const std::string handle = FinishedHandle();
  ChildProcess joined = Start({"join", handle, "late", "5", "open"}, {{"RANKLOG_PROJECT", "other"},
                                                                      {"RANKLOG_NAME", "other"},
                                                                      {"RANKLOG_RUN_ID", "other"},
                                                                      {"RANK", "7"},
                                                                      {"RANKLOG_NOTES", "other"}});
  ASSERT_EQ(joined.Wait(), 0) << joined.Output();
  ASSERT_TRUE(WaitFor([&] { return Streams("job").size() == 2; }));
  EXPECT_EQ(node_.GetRun("job").settings.notes, "");
  EXPECT_EQ(node_.GetRun("other").id, 0);
}

TEST_F(AttachTest, WrongHandleGetsARunOfItsOwn) {
  node_.Start();
  std::string handle = FinishedHandle();
  handle.pop_back();
  int number = 0;
  for (const std::string& wrong : {handle, std::string("nonsense"), std::string()}) {
    const std::string id = "own" + std::to_string(number++);
    ChildProcess joined = Start({"join", wrong, "own", "5", "steps"},
                                {{"RANKLOG_RUN_ID", id}, {"RANKLOG_QUIET", "0"}});
    EXPECT_EQ(joined.Wait(), 0) << joined.Output();
    EXPECT_THAT(joined.Output(), HasSubstr("is not what Run::Handle() returned"));
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(id); }));
    EXPECT_EQ(node_.GetRun(id).rows, 5u);
  }
  EXPECT_THAT(Streams("job"), SizeIs(1));
}

// The daemon starts when all of them have ended.
TEST_F(AttachTest, RingsOfADeadFamilyFormOneRun) {
  ChildProcess maker = Start({"finished"}, {{"RANKLOG_FINISH_TIMEOUT_MS", "0"}});
  maker.Wait();
  const std::string output = maker.Output();
  const size_t begin = output.find("handle ") + 7;
  const std::string handle = output.substr(begin, output.find(".\n", begin) - begin);
  ChildProcess joined = Start({"join", handle, "late", "5", "open"});
  ASSERT_TRUE(WaitFor([&] { return counter_->returned >= 11; }));
  joined.Kill();
  node_.Start();
  ExpectEnded();
  ASSERT_TRUE(WaitFor([&] { return Streams("job").size() == 2; }));
  EXPECT_EQ(StoredRows(), counter_->returned);
}

}  // namespace
}  // namespace ranklog::testing
