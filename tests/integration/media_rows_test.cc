// S54: images, tables and HTML arrive once, together with their row, whoever dies after Log() has
// returned.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class MediaRowsTest : public ::testing::Test {
 protected:
  // `waits`: until LogNow().
  void StartRank(const std::string& then, bool waits = false) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
    options.environment.merge(WandbAt(server_.url()));
    std::vector<std::string> args = {MEDIA_RANK, then};
    if (waits) args.push_back(dir_.File("now"));
    rank_ = std::make_unique<ChildProcess>(args, options);
    EXPECT_TRUE(!waits || WaitFor([&] { return rank_->Output() == "ready\n"; }));
  }
  void LogNow() { std::ofstream(dir_.File("now")).flush(); }
  std::string Ranklog(const std::string& command, const std::string& format = "--json") {
    const Finished finished =
        RunToEnd({RANKLOG_CLI, command, "job", format, "--state-dir", node_.state_dir()}, {});
    EXPECT_EQ(finished.code, 0) << finished.output;
    return finished.output;
  }
  json AwaitRun() {
    EXPECT_TRUE(server_.WaitForEnd("job"));
    EXPECT_TRUE(server_.errors().empty()) << server_.errors().front();
    EXPECT_TRUE(WaitFor([&] { return fs::is_empty(node_.state_dir() + "/content"); }));
    return server_.Dump()["runs"]["job"];
  }
  // Checks that the file is that of the entry, and that the server knows that it is there.
  void ExpectFile(const json& run, const std::string& path, const std::string& begin,
                  size_t bytes) {
    EXPECT_THAT(path, StartsWith(begin));
    ASSERT_TRUE(run["files"].contains(path)) << path;
    EXPECT_EQ(server_.run("job").files.at(path).size(), bytes);
    EXPECT_THAT(run["uploaded"], ::testing::Contains(path));
  }
  void ExpectArrived() {
    const json run = AwaitRun();
    ASSERT_THAT(run["history"], SizeIs(2));
    const json row = run["history"][1];
    EXPECT_EQ(row["_step"], 7);
    EXPECT_EQ(row["loss"], 0.25);
    const json sample = row["eval/sample"];
    EXPECT_EQ(sample["_type"], "image-file");
    EXPECT_EQ(sample["caption"], "of width 1");
    ExpectFile(run, sample["path"], "media/images/eval/sample_7_", 3'000'024);
    const json pair = row["pair"]["filenames"];
    ASSERT_THAT(pair, SizeIs(2));
    for (const json& path : pair) ExpectFile(run, path, "media/images/pair_7_", 34);
    ExpectFile(run, row["predictions"]["path"], "media/table/predictions_7_", 55);
    ExpectFile(run, row["report"]["path"], "media/html/report_7_", 11);
    EXPECT_EQ(server_.run("job").files.at(row["report"]["path"]), "<b>done</b>");
    const auto is_media = [](const std::string& name) { return name.rfind("media/", 0) == 0; };
    const std::vector<std::string> uploaded = run["uploaded"];
    EXPECT_EQ(std::count_if(uploaded.begin(), uploaded.end(), is_media), 5);
  }

  FakeWandb server_;
  // With the key: a restarted daemon does not have that of a rank that has ended.
  Node node_{{}, {{"WANDB_API_KEY", WandbAt(server_.url()).at("WANDB_API_KEY")}}};
  TempDir dir_;
  std::unique_ptr<ChildProcess> rank_;
};

TEST_F(MediaRowsTest, SurviveTheRankThatIsKilledAtOnce) {
  node_.Start();
  StartRank("die");
  EXPECT_EQ(rank_->Wait(), -SIGKILL);
  ExpectArrived();
}

TEST_F(MediaRowsTest, SurviveTheDaemonInTheMiddle) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage,
                  .times = 30,
                  .code = 200,
                  .act = true,
                  .delay = absl::Milliseconds(150)});
  node_.Start();
  StartRank("finish");
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  KillBetweenRequests(server_, &node_);
  ExpectArrived();
}

// Both die, so only the disk and the spool have them.
TEST_F(MediaRowsTest, AreLoggedWhileNoDaemonRuns) {
  node_.Start();
  StartRank("die", /*waits=*/true);
  node_.Kill();
  LogNow();
  EXPECT_EQ(rank_->Wait(), -SIGKILL);
  node_.Start();
  ExpectArrived();
}

TEST_F(MediaRowsTest, ToolsShowTheirEntries) {
  node_.Start();
  StartRank("finish");
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(), HasSubstr("left out 0: "));
  ExpectArrived();
  const json listed = json::parse(Ranklog("artifacts"));
  ASSERT_THAT(listed, SizeIs(5));
  EXPECT_EQ(listed[0]["state"], "delivered");
  EXPECT_THAT(Ranklog("show"), HasSubstr("media/images/eval/sample_7_"));
  EXPECT_THAT(Ranklog("export", "--format=jsonl"),
              AllOf(HasSubstr("media/table/predictions_7_"), HasSubstr("\"loss\":0.25")));
  EXPECT_THAT(Ranklog("export", "--format=csv"), HasSubstr("html-file"));
}

TEST_F(MediaRowsTest, WithoutRoomTheRestOfTheRowArrives) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(node_.state_dir(), "64m");
  ASSERT_TRUE(disk.mounted());
  node_.Start();
  StartRank("finish", /*waits=*/true);
  const std::string filler = node_.state_dir() + "/filler";
  const uint64_t free = fs::space(node_.state_dir()).available;
  std::ofstream(filler) << std::string(free - (2 << 20), 'x');  // 5 % of it are more
  LogNow();
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(),
              AllOf(HasSubstr("left out 4: report: no room for a file of 11 bytes"),
                    HasSubstr("free space there")));
  const json run = AwaitRun();
  ASSERT_THAT(run["history"], SizeIs(2));
  EXPECT_EQ(run["history"][1]["loss"], 0.25);
  EXPECT_FALSE(run["history"][1].contains("report"));
}

}  // namespace
}  // namespace ranklog::testing
