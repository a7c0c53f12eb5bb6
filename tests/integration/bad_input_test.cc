// Wrong usage, an unusable store, and rows that are wrong or huge. Each is reported with a helpful
// message, or counted, and nothing else is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Finished Ranklog(std::vector<std::string> args) {
  args.insert(args.begin(), RANKLOG_CLI);
  return RunToEnd(args);
}
TEST(BadUsageTest, ExitsWithTwoAndNamesMistake) {
  TempDir dir;
  const std::string config = dir.File("config.toml");
  std::ofstream(config) << "drian = \"2m\"\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> daemon = {
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"--drain", "soon"}, "soon"},
      {{"--listen", "tcp:127.0.0.1:80"}, "unix:PATH"},
      {{"--log-level", "loud"}, "loud"},
      {{"--config", dir.File("absent.toml")}, "absent.toml"},
      {{"--config", config}, "drian"}};
  for (const auto& [args, message] : daemon) {
    const Finished finished = RunRanklogd(args);
    EXPECT_EQ(finished.code, 2) << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(message));
  }
  const std::vector<std::pair<std::vector<std::string>, std::string>> command = {
      {{"runs", "--no-such-flag"}, "--no-such-flag"},
      {{"no-such-command"}, "no-such-command"},
      {{}, "no command was given"},
      {{"sync", "--timeout", "soon"}, "30s"},
      {{"sync", "--to", "nowhere"}, "nowhere"},
      {{"status", "--address", "tcp:1"}, "unix:PATH"},
      {{"status", "--address", "unix:/s", "--state-dir", "/d"}, "--address"}};
  for (const auto& [args, message] : command) {
    const Finished finished = Ranklog(args);
    EXPECT_EQ(finished.code, 2) << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(message));
  }
}

// A store with the rows of one run, closed properly.
class BadStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.Start();
    ChildProcess rank = StartRank("before", {});
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("before"); }));
    ASSERT_EQ(node_.Terminate(), 0);
  }

  ChildProcess StartRank(const std::string& job,
                         std::map<std::string, std::string> environment) const {
    environment["RANKLOG_DESTINATIONS"] = "local";
    return node_.StartRank(job, 0, 0, 1, 1, {"200"}, environment);
  }
  std::string database() const { return node_.state_dir() + "/ranklog.db"; }

  // Checks that the daemon refuses the store with this message and does not change it. Rows that a
  // rank logs meanwhile arrive once the store has been moved away.
  void ExpectRefusedUntouchedAndNothingLost(const std::string& message) {
    const std::string before = FileContent(database());
    const Finished refused = RunRanklogd({"--state-dir", node_.state_dir(), "--listen",
                                          node_.address(), "--spool-dir", node_.spool_dir()});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.output, AllOf(HasSubstr(database()), HasSubstr(message)));
    EXPECT_EQ(FileContent(database()), before) << "the file was changed";

    ChildProcess rank = StartRank("meanwhile", {{"RANKLOG_FINISH_TIMEOUT_MS", "300"}});
    EXPECT_EQ(rank.Wait(), 3) << rank.Output();
    EXPECT_THAT(rank.Output(), HasSubstr("logged 200, spooled"));

    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::error_code absent;
      std::filesystem::rename(database() + suffix, database() + suffix + ".away", absent);
    }
    node_.Start();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("meanwhile"); }));
    EXPECT_EQ(node_.GetRun("meanwhile").rows, 200u);
  }

  Node node_;
};

TEST_F(BadStoreTest, NewerVersionIsRefused) {
  node_.EditStore("PRAGMA user_version = 99");
  ExpectRefusedUntouchedAndNothingLost("newer Ranklog");
  EXPECT_THAT(Ranklog({"runs", "--state-dir", node_.state_dir()}).output, HasSubstr("meanwhile"));
}

TEST_F(BadStoreTest, StoreOfAPrereleaseIsRefused) {
  node_.EditStore("PRAGMA application_id = 0x524B4C47; PRAGMA user_version = 11");
  ExpectRefusedUntouchedAndNothingLost("before its first release");
}

TEST(BadRowsTest, AreCountedWhileOthersAreDelivered) {
  FakeWandb wandb;
  Node node({"--transmit-interval", "50ms"});
  node.Start();
  ChildProcess::Options options;
  options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
  options.environment["WANDB_BASE_URL"] = wandb.url();
  options.environment["WANDB_API_KEY"] = std::string(40, 'k');
  options.environment["RANKLOG_SPOOL_BYTES"] = std::to_string(64 << 20);
  ChildProcess rank({BAD_ROWS_RANK}, options);
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_EQ(rank.Output(),
            "first 1\nnan 1\nbehind 0\nempty handle 0\nonly bad keys 1\n"
            "100000 metrics 1\n25 MB 1\nover half of the spool 0\nlast 1\n");
  ASSERT_TRUE(wandb.WaitForEnd("job", absl::Seconds(300)));
  EXPECT_THAT(wandb.errors(), IsEmpty());
  const FakeWandb::Run run = wandb.run("job");
  ASSERT_EQ(run.history.size(), 5u);
  EXPECT_THAT(run.history[1], AllOf(HasSubstr("\"loss\":NaN"), HasSubstr("\"up\":Infinity"),
                                    HasSubstr("\"down\":-Infinity")));
  const json wide = ParseExtendedJson(run.history[2]);
  EXPECT_EQ(wide["wide/99999"], 99999);
  EXPECT_GT(wide.size(), 100'000u);
  EXPECT_FALSE(ParseExtendedJson(run.history[3]).contains("blob")) << "over W&B's limit for a line";
  EXPECT_EQ(ParseExtendedJson(run.history[4])["loss"], 2);

  const auto command = [&](const char* name) {
    const Finished finished = Ranklog({name, "--json", "--state-dir", node.state_dir()});
    EXPECT_EQ(finished.code, 0) << finished.output;
    return json::parse(finished.output, nullptr, /*allow_exceptions=*/false);
  };
  const json status = command("status");
  EXPECT_EQ(status["lost"]["step_behind"], 1);
  EXPECT_EQ(status["lost"]["invalid"], 1);
  EXPECT_EQ(status["lost"]["values"], 3);
  EXPECT_EQ(status["lost"]["too_large"], 1);
  EXPECT_EQ(status["lost"]["ring_full"], 0);
  const json runs = command("runs");
  EXPECT_EQ(runs[0]["ranks"][0]["rows"], 6) << "one has no metrics, so the run has 5";
  EXPECT_EQ(runs[0]["ranks"][0]["lost"], 3);
  EXPECT_EQ(runs[0]["ranks"][0]["losses"], status["lost"]);
  EXPECT_EQ(runs[0]["destinations"][0]["refused_rows"], 1) << "the 25 MB row, at W&B";
  EXPECT_EQ(ParseExtendedJson(run.summary)["ranklog/rows_lost"], 4) << "those three and that one";
}

}  // namespace
}  // namespace ranklog::testing
