// The tokens of a text, made by ranklog-bpe and cached: which processes of ranklog-train make them.
// S29.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/file_content.h"
#include "tests/support/temp_dir.h"
#include "tests/support/without_daemon.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::FileContent;
using ::ranklog::testing::Finished;
using ::ranklog::testing::RunToEnd;
using ::ranklog::testing::WaitFor;
using ::ranklog::testing::WithoutDaemon;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// A copy of ranklog-train finds a script in the place of ranklog-bpe. The script counts its starts,
// and waits for Go().
class CachedTokensTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path bpe =
        std::filesystem::path(RANKLOG_TRAIN).parent_path() / "../libexec/ranklog/ranklog-bpe";
    SKIP_WITHOUT(std::filesystem::exists(bpe),
                 "ranklog-bpe: libsentencepiece-dev is not installed");
    std::filesystem::create_directories(dir_.File("bin"));
    std::filesystem::create_directories(dir_.File("libexec/ranklog"));
    std::filesystem::copy_file(RANKLOG_TRAIN, dir_.File("bin/ranklog-train"));
    const std::string script = dir_.File("libexec/ranklog/ranklog-bpe");
    std::ofstream(script) << "#!/bin/sh\necho >>" << dir_.File("starts") << "\nwhile [ -d "
                          << dir_.path() << " ] && [ ! -e " << dir_.File("go")
                          << " ]; do sleep 0.01; done\nexec " << bpe.string() << " \"$@\"\n";
    chmod(script.c_str(), 0755);
    WriteText("text", "the rank ");
  }
  void WriteText(const std::string& name, const std::string& words) const {
    std::ofstream file(dir_.File(name));
    for (int i = 0; i < 3000; ++i) file << words << i * 7919 % 1000 << " logs its row\n";
  }
  void Go() const { std::ofstream(dir_.File("go")).close(); }
  int64_t Starts() const {
    const std::string lines = FileContent(dir_.File("starts"));
    return std::count(lines.begin(), lines.end(), '\n');
  }
  static std::set<std::string> FilesIn(const std::string& directory) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      names.insert(entry.path().filename());
    return names;
  }

  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> command = {dir_.File("bin/ranklog-train"),
                                        "--tokenizer",
                                        "bpe:512",
                                        "--steps",
                                        "2",
                                        "--seq-len",
                                        "16",
                                        "--batch-size",
                                        "2",
                                        "--val-every",
                                        "0"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  // Two ranks without a launcher; each has its own cache, and the text of its name.
  std::vector<ChildProcess> TwoNodes(const std::string (&texts)[2]) const {
    using ranklog::testing::DeadPort;
    const std::string port = std::to_string(DeadPort(DeadPort::kRefuses).number());
    std::vector<ChildProcess> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ChildProcess::Options options = WithoutDaemon(dir_);
      options.environment.insert({{"RANK", std::to_string(rank)},
                                  {"LOCAL_RANK", "0"},
                                  {"GROUP_RANK", std::to_string(rank)},
                                  {"WORLD_SIZE", "2"},
                                  {"LOCAL_WORLD_SIZE", "1"},
                                  {"OMP_NUM_THREADS", "1"},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", port}});
      ranks.emplace_back(Command({"--data", dir_.File(texts[rank]), "--cache-dir", Cache(rank)}),
                         options);
    }
    return ranks;
  }
  std::string Cache(int rank) const { return dir_.File("cache-" + std::to_string(rank)); }

  ranklog::testing::TempDir dir_;
};

TEST_F(CachedTokensTest, TokensAreBuiltOnceAndReused) {
  Go();
  const std::vector<std::string> command =
      Command({"--data", dir_.File("text"), "--nproc-per-node", "2"});
  const Finished first = RunToEnd(command, WithoutDaemon(dir_));
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, AllOf(HasSubstr("training the tokenizer bpe:512"),
                                  HasSubstr(" made in "), HasSubstr("step 2/2")));
  EXPECT_EQ(Starts(), 1);
  const Finished second = RunToEnd(command, WithoutDaemon(dir_));
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, AllOf(HasSubstr("from the cache: " + dir_.File("cache/ranklog/")),
                                   Not(HasSubstr("training the tokenizer"))));
  EXPECT_EQ(Starts(), 1);
}

TEST_F(CachedTokensTest, SecondTrainingWaitsForTokensOfTheFirst) {
  const std::vector<std::string> command = Command({"--data", dir_.File("text")});
  ChildProcess first(command, WithoutDaemon(dir_));
  ASSERT_TRUE(WaitFor([&] { return Starts() == 1; })) << first.Output();
  ChildProcess second(command, WithoutDaemon(dir_));
  EXPECT_TRUE(WaitFor([&] {
    return Starts() > 1 || second.Output().find("waiting for another process") != std::string::npos;
  })) << second.Output();
  Go();
  EXPECT_EQ(first.Wait(), 0) << first.Output();
  EXPECT_EQ(second.Wait(), 0) << second.Output();
  EXPECT_EQ(Starts(), 1);
  EXPECT_THAT(FilesIn(dir_.File("cache/ranklog")), SizeIs(3));  // tokens, their model, .lock
}

TEST_F(CachedTokensTest, NodesWithOwnCachesMakeOwnTokens) {
  Go();
  std::vector<ChildProcess> ranks = TwoNodes({"text", "text"});
  for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_EQ(Starts(), 2);
  EXPECT_EQ(FilesIn(Cache(0)), FilesIn(Cache(1)));
}

TEST_F(CachedTokensTest, NodesWithDifferentTextsFail) {
  Go();
  WriteText("other", "the node ");
  std::vector<ChildProcess> ranks = TwoNodes({"text", "other"});
  for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(), 1) << rank.Output();
  EXPECT_THAT(ranks[1].Output(), AllOf(HasSubstr("cannot train on " + dir_.File("other") +
                                                 ": it differs from the data of rank 0"),
                                       HasSubstr("give all nodes the same files")));
  EXPECT_THAT(ranks[0].Output(), HasSubstr("cannot train on " + dir_.File("other")));
}

TEST_F(CachedTokensTest, ReportsUnwritableCache) {
  std::ofstream(dir_.File("file")) << "no directory";
  const Finished refused =
      RunToEnd(Command({"--data", dir_.File("text"), "--cache-dir", dir_.File("file")}),
               WithoutDaemon(dir_));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, AllOf(HasSubstr(dir_.File("file")), HasSubstr("--cache-dir")));
}

}  // namespace
}  // namespace ranklog::trainer
