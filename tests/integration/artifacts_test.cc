// Artifacts and files arrive as they were when the call's promise began, whoever dies afterwards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr size_t kModelBytes = 3'000'000;

class ArtifactsTest : public ::testing::Test {
 protected:
  ArtifactsTest() {
    fs::create_directories(path_ + "/sub");
    std::ofstream(path_ + "/model.bin") << std::string(kModelBytes, 'x');
    std::ofstream(path_ + "/sub/config.json") << "{}";
    std::ofstream(path_ + "/notes.txt") << "hello";
  }
  void StartRank(const std::string& then, const std::string& path) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
    options.environment.merge(WandbAt(server_.url()));
    rank_ = std::make_unique<ChildProcess>(std::vector<std::string>{ARTIFACT_RANK, path, then},
                                           options);
  }
  json Artifacts() const {
    const Finished finished =
        RunToEnd({RANKLOG_CLI, "artifacts", "job", "--json", "--state-dir", node_.state_dir()}, {});
    return json::parse(finished.output, nullptr, /*allow_exceptions=*/false);
  }
  // The run has ended and has this file. If the rank is killed before its thread for files has
  // connected, the daemon finds that thread's ring a moment later, and the run ends once more.
  bool EndsWith(const std::string& file) {
    return server_.WaitFor(
        [&](const auto& runs) {
          const auto run = runs.find("job");
          return run != runs.end() && run->second.complete && run->second.files.count(file) > 0;
        },
        absl::Seconds(60));
  }
  void ExpectArrived() {
    ASSERT_TRUE(EndsWith("notes/today.txt"));
    const json run = server_.Dump()["runs"]["job"];
    ASSERT_THAT(run["artifacts"], SizeIs(1));
    const json artifact = run["artifacts"][0];
    EXPECT_EQ(artifact["committed"], true);
    EXPECT_EQ(artifact["version"], 0);
    EXPECT_EQ(artifact["history_step"], 7);
    EXPECT_EQ(artifact["aliases"], json({"latest", "step-7"}));
    const json files = artifact["files"];
    EXPECT_THAT(files, SizeIs(3));
    EXPECT_TRUE(files["model.bin"] == std::string(kModelBytes, 'x'));
    EXPECT_EQ(files["sub/config.json"], "{}");
    EXPECT_EQ(run["files"]["notes/today.txt"], "hello");
    EXPECT_EQ(run["used_artifacts"], json({"gpt"}));
    EXPECT_TRUE(server_.errors().empty()) << server_.errors().front();
    // The daemon removes what it has delivered.
    EXPECT_TRUE(WaitFor([&] { return fs::is_empty(node_.state_dir() + "/content"); }));
    const json listed = Artifacts();
    ASSERT_THAT(listed, SizeIs(3));
    EXPECT_EQ(listed[0]["name"], "gpt");
    EXPECT_EQ(listed[0]["bytes"], kModelBytes + 7);
    EXPECT_EQ(listed[0]["state"], "delivered");
    EXPECT_EQ(listed[1]["name"], "notes/today.txt");
    EXPECT_EQ(listed[2]["name"], "gpt:latest");
    EXPECT_EQ(listed[2]["type"], "used");
  }

  FakeWandb server_;
  // With the key: a restarted daemon does not have that of a rank that has ended.
  Node node_{{}, {{"WANDB_API_KEY", WandbAt(server_.url()).at("WANDB_API_KEY")}}};
  TempDir dir_;
  const std::string path_ = dir_.File("step-7");
  std::unique_ptr<ChildProcess> rank_;
};

TEST_F(ArtifactsTest, FilesMayChangeOnceTheyAreStaged) {
  node_.Start();
  StartRank("finish", path_);
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(), HasSubstr("staged"));
  ExpectArrived();
}

TEST_F(ArtifactsTest, AreDownloadedAgain) {
  node_.Start();
  StartRank("finish", path_);
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  ExpectArrived();
  ChildProcess::Options options;
  options.environment = WandbAt(server_.url());
  const std::string project = server_.Dump()["runs"]["job"]["project"];
  const auto get = [&](const std::string& name) {
    return RunToEnd({RANKLOG_CLI, "artifacts", "get", name, "--project", project, "--root",
                     dir_.File("got"), "--state-dir", node_.state_dir()},
                    options);
  };
  const Finished got = get("gpt:step-7");
  EXPECT_EQ(got.code, 0) << got.output;
  EXPECT_THAT(got.output, HasSubstr("gpt:v0  3 files, 2.9 MiB in "));
  EXPECT_EQ(fs::file_size(dir_.File("got") + "/model.bin"), kModelBytes);
  EXPECT_THAT(get("gpt").output, HasSubstr("(3 were there)"));
  // Ranks of a node may start with the same download.
  std::vector<std::unique_ptr<ChildProcess>> both;
  for (int i = 0; i < 2; ++i) {
    both.push_back(std::make_unique<ChildProcess>(
        std::vector<std::string>{RANKLOG_CLI, "artifacts", "get", "gpt", "--project", project,
                                 "--root", dir_.File("both"), "--state-dir", node_.state_dir()},
        options));
  }
  for (const auto& one : both) EXPECT_EQ(one->Wait(), 0) << one->Output();
  EXPECT_EQ(fs::file_size(dir_.File("both") + "/model.bin"), kModelBytes);
  for (const auto& file : fs::directory_iterator(dir_.File("both"))) {
    EXPECT_THAT(file.path().string(), Not(HasSubstr("ranklog-part")));
  }
  const Finished absent = get("gpt:v9");
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.output, HasSubstr("there is no artifact"));
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "artifacts", "get", "gpt"}, options).code, 2) << "no --root";
}

TEST_F(ArtifactsTest, SurviveTheRank) {
  node_.Start();
  StartRank("die", path_);
  EXPECT_EQ(rank_->Wait(), -SIGKILL);
  EXPECT_THAT(rank_->Output(), HasSubstr("staged"));
  ExpectArrived();
}

TEST_F(ArtifactsTest, SurviveTheDaemonInTheMiddle) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage,
                  .times = 30,
                  .code = 200,
                  .act = true,
                  .delay = absl::Milliseconds(150)});
  node_.Start();
  StartRank("finish", path_);
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  KillBetweenRequests(server_, &node_);
  ExpectArrived();
}

TEST_F(ArtifactsTest, SavedFilesFollowTheirPolicies) {
  node_.Start();
  StartRank("save", path_);
  const auto has = [&](const char* name, const char* content) {
    return server_.WaitFor(
        [&](const auto& runs) {
          const auto run = runs.find("job");
          if (run == runs.end()) return false;
          const auto file = run->second.files.find(name);
          return file != run->second.files.end() && file->second == content;
        },
        absl::Seconds(60));
  };
  EXPECT_TRUE(has("live.txt", "first"));
  std::ofstream(path_ + "/go") << "";
  EXPECT_TRUE(has("live.txt", "the second"));
  EXPECT_EQ(server_.run("job").files.count("end.txt"), 0u);
  std::ofstream(path_ + "/end") << "";
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_TRUE(has("live.txt", "the last one"));
  EXPECT_TRUE(has("end.txt", "at the end"));
}

TEST_F(ArtifactsTest, LastCopyOfAKilledProcessCounts) {
  node_.Start();
  StartRank("save-die", path_);
  std::ofstream(path_ + "/go") << "";
  std::ofstream(path_ + "/end") << "";
  EXPECT_EQ(rank_->Wait(), -SIGKILL);
  ASSERT_TRUE(EndsWith("live.txt"));
  EXPECT_EQ(server_.run("job").files.at("live.txt"), "first");
  EXPECT_EQ(server_.run("job").files.count("end.txt"), 0u);
}

TEST_F(ArtifactsTest, WhatIsNotThereIsRefused) {
  node_.Start();
  StartRank("finish", dir_.File("absent"));
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(), HasSubstr("refused: "));
  EXPECT_THAT(rank_->Output(), HasSubstr("No such file or directory"));
  EXPECT_TRUE(fs::is_empty(node_.state_dir() + "/content"));
}

// Such a name would be unreadable for the daemon, and end the rank's stream.
TEST_F(ArtifactsTest, NameThatIsNoUtf8IsRefusedAndTheRestArrives) {
  node_.Start();
  std::ofstream(path_ + "/caf\xe9.bin") << "x";
  StartRank("finish", path_);
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(), HasSubstr("refused: a file's name is not UTF-8"));
  ASSERT_TRUE(server_.WaitForEnd("job"));
  EXPECT_THAT(server_.run("job").history, SizeIs(1));
  EXPECT_EQ(server_.run("job").files.at("notes/today.txt"), "hello");
}

TEST_F(ArtifactsTest, TwoFilesOfOneNameAreRefused) {
  node_.Start();
  fs::create_directories(path_ + "/other");
  std::ofstream(path_ + "/other/model.bin") << "y";
  StartRank("finish", path_ + "/model.bin:" + path_ + "/other/model.bin");
  EXPECT_EQ(rank_->Wait(), 0) << rank_->Output();
  EXPECT_THAT(rank_->Output(), HasSubstr("refused: two of its files are named model.bin"));
}

}  // namespace
}  // namespace ranklog::testing
