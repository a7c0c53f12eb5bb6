#include "client/facts/git.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

const std::string kCommit(40, '1');
const std::string kPacked(40, '2');

class GitTest : public ::testing::Test {
 protected:
  GitTest() {
    Write(".git/HEAD", "ref: refs/heads/main\n");
    Write(".git/refs/heads/main", kCommit + "\n");
    Write(".git/config",
          "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = git@host:me/fork.git\n"
          "[remote \"origin\"]\n\turl = https://me:secret@host/me/gpt.git\n\tfetch = +refs\n"
          "# comment\n[branch \"main\"]\n\tremote = origin\n");
    std::filesystem::create_directories(dir_.File("src/deep"));
    options_.directory = dir_.File("src/deep");
    options_.home = dir_.File("home");
  }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = dir_.File(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  GitFacts Read() { return ReadGit(options_); }

  testing::TempDir dir_;
  GitOptions options_;
};

TEST_F(GitTest, BranchCommitAndRemoteAreRead) {
  const GitFacts git = Read();
  EXPECT_EQ(git.root, dir_.path());
  EXPECT_EQ(git.branch, "main");
  EXPECT_EQ(git.commit, kCommit);
  EXPECT_EQ(git.remote, "https://host/me/gpt.git");
  options_.remote = "fork";
  EXPECT_EQ(Read().remote, "git@host:me/fork.git");
}

TEST_F(GitTest, DetachedHeadHasACommitOnly) {
  Write(".git/HEAD", kCommit + "\n");
  EXPECT_EQ(Read().commit, kCommit);
  EXPECT_EQ(Read().branch, "");
}

TEST_F(GitTest, PackedRefsAreFound) {
  std::filesystem::remove(dir_.File(".git/refs/heads/main"));
  Write(".git/packed-refs", "# pack-refs with: peeled\n" + kCommit + " refs/heads/mainline\n" +
                                kPacked + " refs/heads/main\n^" + kCommit + "\n");
  EXPECT_EQ(Read().commit, kPacked);
  Write(".git/packed-refs", kPacked + " refs/heads/main\n");
  EXPECT_EQ(Read().commit, kPacked);
  Write(".git/packed-refs", "nonsense refs/heads/main\n");
  EXPECT_EQ(Read().commit, "");
}

TEST_F(GitTest, WorktreeUsesTheSharedRepository) {
  Write("tree/.git", "gitdir: " + dir_.File(".git/worktrees/tree") + "\n");
  Write(".git/worktrees/tree/HEAD", "ref: refs/heads/topic\n");
  Write(".git/worktrees/tree/commondir", "../..\n");
  Write(".git/refs/heads/topic", kPacked);
  options_.directory = dir_.File("tree");
  const GitFacts git = Read();
  EXPECT_EQ(git.root, dir_.File("tree"));
  EXPECT_EQ(git.branch, "topic");
  EXPECT_EQ(git.commit, kPacked);
  EXPECT_EQ(git.remote, "https://host/me/gpt.git");
}

TEST_F(GitTest, GitDirOfTheEnvironmentCounts) {
  options_.git_dir = dir_.File(".git");
  options_.directory = "/";
  EXPECT_EQ(Read().commit, kCommit);
  EXPECT_EQ(Read().root, "/");
  options_.work_tree = "/work";
  EXPECT_EQ(Read().root, "/work");
}

TEST_F(GitTest, EmailOfTheRepositoryCountsBeforeTheUsers) {
  Write("home/.gitconfig", "[user]\n\tname = Me\n\temail = \"me@home\"\n");
  EXPECT_EQ(Read().email, "me@home");
  Write(".git/config", "[user]\nemail = me@work\n");
  EXPECT_EQ(Read().email, "me@work");
}

TEST_F(GitTest, NoRepositoryHasNoFacts) {
  std::filesystem::remove_all(dir_.File(".git"));
  EXPECT_EQ(Read().commit, "");
  Write(".git", "nonsense");
  EXPECT_EQ(Read().root, "");
  std::filesystem::remove(dir_.File(".git"));
  Write(".git/HEAD", "");
  EXPECT_EQ(Read().root, "");
  std::filesystem::remove(dir_.File(".git/HEAD"));
  ASSERT_EQ(mkfifo(dir_.File(".git/HEAD").c_str(), 0600), 0);
  EXPECT_EQ(Read().root, "") << "a pipe whose reader would wait";
  options_.directory = "";
  EXPECT_EQ(Read().root, "");
}

TEST_F(GitTest, RefOutsideTheRepositoryIsNotRead) {
  Write("outside", kCommit);
  Write(".git/HEAD", "ref: ../outside\n");
  EXPECT_EQ(Read().commit, "");
}

}  // namespace
}  // namespace ranklog::internal
