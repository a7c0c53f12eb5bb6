// A store of the first release, with rows that no tracker has, under today's programs: the rows are
// read, delivered and continued. S40.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/storage/rows/documents.h"
#include "service/storage/store.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FirstStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    fs::create_directory(node_.state_dir());
    fs::permissions(node_.state_dir(), fs::perms::owner_all);
    std::ifstream dump(STORE_VERSION1);
    node_.EditStore(std::string((std::istreambuf_iterator<char>(dump)), {}));
    EXPECT_THAT(Cli({"runs"}).output, HasSubstr("start ranklogd once to migrate it"));
    ASSERT_OK(storage::Store::Open(node_.state_dir(), {}));
    // Its server was at a port that is unknown now.
    for (const char* run : {"first", "again", "killed"}) {
      model::RunSettings settings = node_.GetRun(run).settings;
      settings.destination_settings["wandb"]["base_url"] = wandb_.url();
      node_.EditStore(absl::StrCat("UPDATE job SET settings = x'",
                                   absl::BytesToHexString(storage::EncodeSettings(settings)),
                                   "' WHERE job_id = '", run, "'"));
    }
  }
  Finished Cli(std::vector<std::string> args) const {
    args.insert(args.begin(), {RANKLOG_CLI, "--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()},
                           {"WANDB_API_KEY", std::string(40, 'k')}};
    return RunToEnd(args, options);
  }

  FakeWandb wandb_;
  Node node_{{"--transmit-interval", "50ms"}};
};

TEST_F(FirstStoreTest, MigratedStoreIsReadWithoutADaemon) {
  for (const char* run : {"first", "again", "killed"}) {
    EXPECT_THAT(Cli({"runs"}).output, HasSubstr(run));
    EXPECT_THAT(Cli({"show", run}).output, HasSubstr("loss"));
    EXPECT_THAT(Cli({"verify", run}).output, HasSubstr("rows")) << run;
  }
  EXPECT_THAT(Cli({"runs"}).output, HasSubstr("crashed"));
}

TEST_F(FirstStoreTest, IsDeliveredAndAcceptsMoreRows) {
  const model::Run killed = node_.GetRun("killed");
  EXPECT_THAT(wandb_.runs(), IsEmpty());
  node_.StartWith({{"WANDB_API_KEY", std::string(40, 'k')}});
  EXPECT_TRUE(wandb_.WaitFor(
      [](const auto& runs) {
        return runs.size() == 3 && std::all_of(runs.begin(), runs.end(),
                                               [](const auto& run) { return run.second.complete; });
      },
      absl::Seconds(60)));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(wandb_.run("first").history, SizeIs(30));
  EXPECT_THAT(wandb_.run("again").history, SizeIs(90));
  EXPECT_THAT(wandb_.run("killed").history, SizeIs(killed.rows));
  for (int step = 0; step < 30; ++step) {
    const nlohmann::json row = ParseExtendedJson(wandb_.run("first").history[step]);
    ASSERT_EQ(row["_step"], step);
    ASSERT_EQ(row["loss"], step);
    ASSERT_EQ(row["rank_mean/loss"], 500 + step);
  }
  EXPECT_EQ(ParseExtendedJson(wandb_.run("again").summary)["loss"]["last"], 89);

  auto there = WandbAt(wandb_.url());
  there["RANKLOG_RESUME"] = "allow";
  EXPECT_EQ(node_.StartRank("again", 0, 0, 1, 1, {"10", "0", "0", "no-file", "90"}, there).Wait(),
            0);
  EXPECT_TRUE(wandb_.WaitFor(
      [](const auto& runs) {
        return runs.at("again").history.size() == 100 && runs.at("again").complete;
      },
      absl::Seconds(60)));
  const Finished verified = Cli({"verify", "again"});
  EXPECT_EQ(verified.code, 0) << verified.output;
}

}  // namespace
}  // namespace ranklog::testing
