// The daemon dies (SIGKILL) between any two steps of a row's way. Whatever it had done without
// reporting it, nothing is lost, and the tracker has nothing twice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/integration/counting_job.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Death {
  const char* point;
  int passage;
};

void PrintTo(const Death& death, std::ostream* out) { *out << death.point << ":" << death.passage; }

class FaultPointTest : public ::testing::TestWithParam<Death> {
 protected:
  // Checks that each row for which Log() returned true is a line of the run, in order; at most one
  // more.
  void ExpectEachLineOnce(const FakeWandb& wandb, const CountingJob& counting) {
    const FakeWandb::Run run = wandb.run("job");
    EXPECT_GE(run.history.size(), counting.returned());
    EXPECT_LE(run.history.size(), counting.returned() + 1);
    uint64_t wrong = 0;
    for (size_t line = 0; line < run.history.size(); ++line) {
      const nlohmann::json row = ParseExtendedJson(run.history[line]);
      if (row["n"] != line || row["_step"] != line) ++wrong;
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_THAT(wandb.errors(), IsEmpty()) << "a gap, or a line written over with something else";
  }

  // Few rows need many messages.
  std::map<std::string, std::string> SmallRing() const {
    std::map<std::string, std::string> environment = WandbAt(wandb_.url());
    environment["RANKLOG_SPOOL_BYTES"] = "65536";
    environment["RANKLOG_FLUSH_INTERVAL_MS"] = "10";
    return environment;
  }

  FakeWandb wandb_;
};

TEST_P(FaultPointTest, DaemonDeathLosesAndRepeatsNothing) {  // S20
  Node node({"--transmit-interval", "20ms"});
  CountingJob counting(node, "job", /*rows=*/0, SmallRing());
  node.StartWith({{"RANKLOG_DIE_AT", absl::StrCat(GetParam().point, ":", GetParam().passage)}});
  ASSERT_EQ(node.daemon().Wait(absl::Seconds(60)), -SIGKILL) << "it never came by there";
  node.Start();
  ASSERT_TRUE(counting.WaitForReturned(counting.returned() + 10'000));
  EXPECT_EQ(counting.Finish(), 0);
  ASSERT_TRUE(wandb_.WaitForEnd("job"));
  counting.ExpectEveryReturnedRowOnce();
  ExpectEachLineOnce(wandb_, counting);
}

TEST_P(FaultPointTest, RankAndDaemonDeathLosesNothing) {  // S19, S20
  Node node({"--transmit-interval", "20ms"});
  CountingJob counting(node, "job", /*rows=*/0, SmallRing());
  node.StartWith({{"RANKLOG_DIE_AT", absl::StrCat(GetParam().point, ":", GetParam().passage)}});
  ASSERT_EQ(node.daemon().Wait(absl::Seconds(60)), -SIGKILL) << "it never came by there";
  counting.rank().Kill();
  // The rank's key is gone with both.
  node.StartWith({{"WANDB_API_KEY", std::string(40, 'k')}});
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  EXPECT_EQ(node.GetRun("job").state, model::RunState::kCrashed);
  counting.ExpectEveryReturnedRowOnce();
  ASSERT_TRUE(wandb_.WaitForEnd("job"));
  ExpectEachLineOnce(wandb_, counting);
}

// The rank and the daemon are gone, so only the store has these rows.
TEST(StoredRowsTest, RowsWithoutARunAreReported) {
  constexpr uint64_t kRows = 20;
  Node node;
  node.StartWith({{"RANKLOG_DIE_AT", "aggregate:1:hang"}});
  CountingJob counting(node, "job", kRows);
  ASSERT_TRUE(counting.WaitForReturned(kRows));
  ASSERT_EQ(counting.Finish(), 0);
  node.Kill();
  const auto ranklog = [&](std::vector<std::string> words) {
    words.insert(words.begin(), RANKLOG_CLI);
    words.insert(words.end(), {"--state-dir", node.state_dir()});
    return RunToEnd(words);
  };
  for (const std::string command : {"status", "runs", "doctor"}) {
    const Finished said = ranklog({command});
    EXPECT_THAT(said.output, HasSubstr("20 rows of job are stored, but not in its run yet"));
    EXPECT_EQ(said.code, command == "doctor" ? 1 : 0) << said.output;
  }
  EXPECT_EQ(ranklog({"status", "--check"}).code, 1);
  EXPECT_EQ(ranklog({"sync"}).code, 0);
  EXPECT_THAT(ranklog({"status"}).output, Not(HasSubstr("not in its run")));
  EXPECT_EQ(node.GetRun("job").rows, kRows);
}

// The job has its own spool directory. The next daemon, for example systemd's, is not configured
// with it.
class OwnSpoolDirTest : public ::testing::Test {
 protected:
  std::string own_dir() const {
    return std::filesystem::path(node_.state_dir()).parent_path() / "own";
  }

  // Starts a daemon that dies at `point`, kills its rank, and expects the rows in the next daemon.
  void DieAndExpectEveryRow(const std::string& point, const std::vector<std::string>& flags = {}) {
    constexpr uint64_t kRows = 1000;
    std::filesystem::create_directory(own_dir());
    CountingJob counting(node_, "job", kRows, {{"RANKLOG_SPOOL_DIR", own_dir()}});
    ASSERT_TRUE(counting.WaitForReturned(kRows));
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_DIE_AT", point}};
    options.unset = {"RANKLOG_SPOOL_DIR"};
    std::vector<std::string> daemon = {RANKLOGD, "--state-dir", node_.state_dir(), "--listen",
                                       node_.address()};
    daemon.insert(daemon.end(), flags.begin(), flags.end());
    const Finished died = RunToEnd(daemon, options);
    ASSERT_EQ(died.code, -SIGKILL) << "it never came by there: " << died.output;
    counting.rank().Kill();
    node_.Start();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    counting.ExpectEveryReturnedRowOnce();
  }

  Node node_;
};

TEST_F(OwnSpoolDirTest, IsRecordedBeforeAttachCommits) { DieAndExpectEveryRow("attach:1"); }

// A daemon that a rank starts gets the rank's directory as a flag.
TEST_F(OwnSpoolDirTest, IsRecordedBeforeDaemonScansIt) {
  DieAndExpectEveryRow("scan:1", {"--spool-dir", own_dir()});
}

INSTANTIATE_TEST_SUITE_P(Each, FaultPointTest,
                         ::testing::Values(Death{"receive", 1}, Death{"receive", 4},
                                           Death{"append", 2}, Death{"append", 9},
                                           Death{"commit", 1}, Death{"commit", 5}, Death{"ack", 1},
                                           Death{"ack", 6}, Death{"send", 1}, Death{"send", 3},
                                           Death{"answer", 1}, Death{"answer", 3}, Death{"mark", 1},
                                           Death{"mark", 3}),
                         [](const ::testing::TestParamInfo<Death>& info) {
                           return absl::StrCat(info.param.point, "_", info.param.passage);
                         });

}  // namespace
}  // namespace ranklog::testing
