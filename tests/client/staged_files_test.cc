// Copies of files for uploads.

#include "client/content/staged_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/content/code_files.h"
#include "client/run/run_state.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/client/fake_ingest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

class StagedFilesTest : public ::testing::Test {
 protected:
  StagedFilesTest() {
    fs::create_directory(dir_.File("content"));
    place_.set_dir(dir_.File("content"));
    struct stat info {};
    EXPECT_EQ(stat(place_.dir().c_str(), &info), 0);
    place_.set_device(info.st_dev);
    place_.set_inode(info.st_ino);
  }
  std::string Write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(dir_.File(name)).parent_path());
    std::ofstream(dir_.File(name), std::ios::binary) << bytes;
    return dir_.File(name);
  }
  std::string Staged(const StagedFile& file) {
    std::ifstream in(place_.dir() + "/" + file.name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  testing::TempDir dir_;
  v1::ContentPlace place_;
};

bool GoOn(uint64_t) { return true; }

TEST_F(StagedFilesTest, CopyDoesNotChangeWithTheFile) {
  const std::string bytes(20 << 20, 'x');
  const std::string path = Write("model.bin", bytes);
  ASSERT_OK_AND_ASSIGN(const StagedFile file, StageFile(place_, path, GoOn));
  Write("model.bin", "changed");
  EXPECT_EQ(file.bytes, bytes.size());
  EXPECT_TRUE(v1::IsStaged(file.name));
  EXPECT_TRUE(Staged(file) == bytes);
  RemoveStagedFile(place_, file.name);
  EXPECT_TRUE(fs::is_empty(place_.dir()));
}

TEST_F(StagedFilesTest, EmptyFileIsAFile) {
  ASSERT_OK_AND_ASSIGN(const StagedFile file, StageFile(place_, Write("empty", ""), GoOn));
  EXPECT_EQ(file.bytes, 0u);
}

TEST_F(StagedFilesTest, GivenUpCopyLeavesNothing) {
  const std::string path = Write("model.bin", std::string(20 << 20, 'x'));
  const auto given_up = StageFile(place_, path, [](uint64_t) { return false; });
  // A file system that shares the space of copies needs no time for one.
  if (!given_up.ok()) {
    EXPECT_TRUE(absl::IsCancelled(given_up.status())) << given_up.status();
    EXPECT_TRUE(fs::is_empty(place_.dir()));
  }
}

TEST_F(StagedFilesTest, BytesAreAFile) {
  ASSERT_OK_AND_ASSIGN(const StagedFile file, StageBytes(place_, std::string("a\0b", 3)));
  EXPECT_EQ(file.bytes, 3u);
  EXPECT_TRUE(v1::IsStaged(file.name));
  EXPECT_EQ(Staged(file), std::string("a\0b", 3));
}

TEST_F(StagedFilesTest, BytesWithoutRoomLeaveNothing) {
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto staged = StageBytes(place_, std::string(2000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(staged.status())) << staged.status();
  EXPECT_THAT(staged.status().ToString(), HasSubstr("File too large"));
  EXPECT_TRUE(fs::is_empty(place_.dir()));
}

TEST_F(StagedFilesTest, WhatIsNoFileIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(StageFile(place_, dir_.File("absent"), GoOn).status()));
  EXPECT_TRUE(absl::IsNotFound(StageFile(place_, dir_.path(), GoOn).status()));
  place_.set_inode(place_.inode() + 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(StageFile(place_, Write("a", "a"), GoOn).status()));
}

TEST_F(StagedFilesTest, DirectoryHasItsFilesByTheirPaths) {
  Write("ckpt/b.bin", "b");
  Write("ckpt/sub/deep/a.bin", "a");
  fs::create_symlink(dir_.File("ckpt/b.bin"), dir_.File("ckpt/link.bin"));
  ASSERT_OK_AND_ASSIGN(const auto files, FilesIn(dir_.File("ckpt")));
  EXPECT_THAT(files,
              ElementsAre(Field(&FileToStage::name, "b.bin"), Field(&FileToStage::name, "link.bin"),
                          Field(&FileToStage::name, "sub/deep/a.bin")));
  ASSERT_OK_AND_ASSIGN(const auto one, FilesIn(dir_.File("ckpt/b.bin")));
  EXPECT_THAT(one, ElementsAre(Field(&FileToStage::name, "b.bin")));
  EXPECT_THAT(FilesIn(dir_.File("absent")).status().ToString(), HasSubstr("No such file"));
}

// As in a download cache, whose names are links to its content.
TEST_F(StagedFilesTest, LinkToAnAbsentFileIsRefused) {
  Write("model/config.json", "{}");
  fs::create_symlink("../blobs/gone", dir_.File("model/weights.bin"));
  EXPECT_THAT(FilesIn(dir_.File("model")).status().ToString(),
              HasSubstr("weights.bin: No such file"));
}

TEST_F(StagedFilesTest, LinkToADirectoryAboveIsLeftOut) {
  Write("model/sub/a.bin", "a");
  Write("other/b.bin", "b");
  fs::create_symlink(".", dir_.File("model/again"));
  fs::create_symlink("../..", dir_.File("model/sub/up"));
  fs::create_symlink("../other", dir_.File("model/other"));
  ASSERT_OK_AND_ASSIGN(const auto files, FilesIn(dir_.File("model")));
  // What a link above `model` holds is its own content once, `model` among it.
  EXPECT_THAT(files, Contains(Field(&FileToStage::name, "sub/a.bin")));
  EXPECT_THAT(files, Contains(Field(&FileToStage::name, "other/b.bin")));
  EXPECT_THAT(files, Not(Contains(Field(&FileToStage::name, HasSubstr("again/")))));
  EXPECT_LT(files.size(), 20u);
}

TEST_F(StagedFilesTest, FileWithMoreBytesThanItTellsIsRefused) {
  const absl::Status status = StageFile(place_, "/proc/self/status", GoOn).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("more than the 0 bytes"));
  EXPECT_TRUE(fs::is_empty(place_.dir()));
}

// Its thread may wait for a disk. Finish() does not, but tells it.
TEST_F(StagedFilesTest, UploadThatStandsStillAtTheEndIsCounted) {
  testing::FakeIngest daemon(dir_.File("sock"));
  daemon.SetContent(place_);
  daemon.Start();
  Settings settings;
  settings.project = "p";
  settings.run_id = "r";
  settings.rank = settings.local_rank = 0;
  settings.world_size = settings.local_world_size = 1;
  settings.address = "unix:" + dir_.File("sock");
  settings.spool_dir = dir_.path();
  settings.spool_bytes = 1 << 20;
  settings.start_daemon = false;
  settings.quiet = true;
  settings.metadata = false;
  settings.finish_timeout = std::chrono::milliseconds(200);
  const std::shared_ptr<RunState> run = RunState::Create(settings);
  std::atomic<bool> goes_on = false;
  v1::Item item;
  item.mutable_artifact()->add_fields()->set_key("entries");
  const auto stuck = run->StageArtifact(item, {dir_.path()}, [&](const std::string&) {
    while (!goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::StatusOr<std::vector<FileToStage>>(std::vector<FileToStage>());
  });
  const auto behind = run->StageRunFile(Write("a", "a"), "a");
  EXPECT_EQ(run->Finish(0, std::chrono::seconds(10)), FlushResult::kDurable);
  EXPECT_EQ(run->GetStats().updates_refused, 2u);
  EXPECT_THAT(run->GetStats().last_error, HasSubstr("given up"));
  goes_on = true;
  EXPECT_EQ(stuck->Wait(std::chrono::steady_clock::now() + std::chrono::seconds(60)),
            Upload::kRefused);
  EXPECT_EQ(behind->Wait(std::chrono::steady_clock::now() + std::chrono::seconds(60)),
            Upload::kRefused);
  EXPECT_EQ(run->GetStats().updates_refused, 2u) << "each once";
  EXPECT_TRUE(fs::is_empty(place_.dir()));
}

TEST_F(StagedFilesTest, CodeIsSourceFilesWithoutBuildTrees) {
  for (const char* name :
       {"src/main.cc", "src/wandb/client.py", "CMakeLists.txt", "notes.md", "a.out", ".git/hook.sh",
        "wandb/run/train.py", "build/CMakeCache.txt", "build/generated.h", "data/corpus.txt"}) {
    Write("code/" + std::string(name), "x");
  }
  ASSERT_OK_AND_ASSIGN(const auto usual, CodeIn(dir_.File("code"), {}));
  EXPECT_THAT(usual, ElementsAre(Field(&FileToStage::name, "CMakeLists.txt"),
                                 Field(&FileToStage::name, "src/main.cc"),
                                 Field(&FileToStage::name, "src/wandb/client.py")));
  ASSERT_OK_AND_ASSIGN(const auto chosen, CodeIn(dir_.File("code"), {".md", "corpus.txt"}));
  EXPECT_THAT(chosen, ElementsAre(Field(&FileToStage::name, "data/corpus.txt"),
                                  Field(&FileToStage::name, "notes.md")));
  EXPECT_THAT(CodeIn(dir_.File("code"), {".rs"}).status().ToString(), HasSubstr("ends in .rs"));
  EXPECT_TRUE(absl::IsNotFound(CodeIn(dir_.File("absent"), {}).status()));
}

TEST(CodeArtifactNameTest, IsValidAtWandb) {
  EXPECT_EQ(CodeArtifactName("llm", "/opt/bin/train gpt"), "source-llm-train_gpt");
  EXPECT_EQ(CodeArtifactName("", "train"), "source-uncategorized-train");
  const std::string longest = CodeArtifactName(std::string(128, 'p'), std::string(200, 'q'));
  EXPECT_EQ(longest.size(), 128u);
  EXPECT_EQ(longest.substr(62, 4), "p..q");
}

}  // namespace
}  // namespace ranklog::internal
