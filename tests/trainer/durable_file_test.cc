#include "trainer/base/durable_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "trainer/checkpoint/checkpoint_directory.h"
#include "trainer/data/token_cache.h"

namespace {

// The disk calls since the start of the record, in order.
std::vector<std::string>* disk_calls = nullptr;

void NoteDiskCall(const std::string& call) {
  if (disk_calls != nullptr) disk_calls->push_back(call);
}

template <typename Function>
Function* RealFunction(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Replacements for the C library's functions: they record the call, and make it.
extern "C" int fsync(int fd) {
  char path[PATH_MAX] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  [[maybe_unused]] const ssize_t size = readlink(link.c_str(), path, sizeof path - 1);
  struct stat status = {};
  fstat(fd, &status);
  const bool file = S_ISREG(status.st_mode);
  NoteDiskCall("sync " + std::string(path) +
               (file ? " of " + std::to_string(status.st_size) + " bytes" : ""));
  return RealFunction<int(int)>("fsync")(fd);
}
extern "C" int rename(const char* from, const char* to) noexcept {
  NoteDiskCall("rename " + std::string(from) + " to " + to);
  return RealFunction<int(const char*, const char*)>("rename")(from, to);
}

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::FileContent;
using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DurableFileTest : public ::testing::Test {
 protected:
  size_t Files() const {
    return std::distance(std::filesystem::directory_iterator(dir_.path()),
                         std::filesystem::directory_iterator());
  }
  std::vector<std::string> DiskCallsOf(const std::function<absl::Status()>& action) const {
    std::vector<std::string> calls;
    disk_calls = &calls;
    EXPECT_OK(action());
    disk_calls = nullptr;
    return calls;
  }
  ranklog::testing::TempDir dir_;
};

TEST_F(DurableFileTest, OldContentStaysUntilCommit) {
  std::ofstream(dir_.File("a")) << "old";
  ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(dir_.File("a")));
  ASSERT_OK(file.Append("new ", 4));
  ASSERT_OK(file.Append("text", 4));
  EXPECT_EQ(FileContent(dir_.File("a")), "old");
  ASSERT_OK(file.Commit());
  EXPECT_EQ(FileContent(dir_.File("a")), "new text");
  EXPECT_EQ(Files(), 1u);
}

// In any other order, a power cut could leave the name without the bytes, or lose the name.
TEST_F(DurableFileTest, CommitSyncsRenamesThenSyncsDirectory) {
  const std::string path = dir_.File("a");
  ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(path));
  ASSERT_OK(file.Append("text", 4));
  EXPECT_THAT(DiskCallsOf([&] { return file.Commit(); }),
              ElementsAre("sync " + path + ".tmp of 4 bytes", "rename " + path + ".tmp to " + path,
                          "sync " + dir_.path()));
}

TEST_F(DurableFileTest, SyncsParentOfEachNewDirectory) {
  std::filesystem::create_directory(dir_.File("a"));
  EXPECT_THAT(DiskCallsOf([&] { return CreateDirectories(dir_.File("a/b/c")); }),
              ElementsAre("sync " + dir_.File("a"), "sync " + dir_.File("a/b")));
  EXPECT_TRUE(std::filesystem::is_directory(dir_.File("a/b/c")));
  EXPECT_THAT(DiskCallsOf([&] { return CreateDirectories(dir_.File("a/b/c/")); }), ElementsAre());
}

TEST_F(DurableFileTest, CheckpointsSetAsideSurvivePowerCut) {
  const std::string path = dir_.File("a");
  ASSERT_OK_AND_ASSIGN(CheckpointDirectory directory, CheckpointDirectory::Open(path, /*keep=*/1));
  std::ofstream(directory.PathOf(7)) << "any";
  const std::string aside = path + "/earlier-1";
  EXPECT_THAT(DiskCallsOf([&] { return directory.SetAside().status(); }),
              ElementsAre("sync " + path, HasSubstr("rename "), "sync " + aside, "sync " + path));
}

TEST_F(DurableFileTest, NewCacheDirectorySurvivesPowerCut) {
  DataProgress silent(/*shown=*/false);
  const std::vector<std::string> calls = DiskCallsOf([&] {
    // The text does not exist, but the cache is created before the error.
    const Text text{.name = "none", .files = {dir_.File("none")}};
    EXPECT_FALSE(
        OpenOrMakeTokens(dir_.File("x/cache"), "a.bin", text, {.pieces = 600}, silent).ok());
    return absl::OkStatus();
  });
  EXPECT_THAT(calls, ElementsAre("sync " + dir_.path(), "sync " + dir_.File("x")));
}

TEST_F(DurableFileTest, LeavesNothingWithoutCommit) {
  {
    ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(dir_.File("a")));
    ASSERT_OK(file.Append("text", 4));
    EXPECT_EQ(Files(), 1u);
  }
  EXPECT_EQ(Files(), 0u);
}

TEST_F(DurableFileTest, OverwritesWhatAKilledProcessLeft) {
  std::ofstream(dir_.File("a.tmp")) << "a longer text than ours";
  ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(dir_.File("a")));
  ASSERT_OK(file.Append("text", 4));
  ASSERT_OK(file.Commit());
  EXPECT_EQ(FileContent(dir_.File("a")), "text");
}

TEST_F(DurableFileTest, NamesTheFileThatFails) {
  EXPECT_THAT(DurableFile::Create(dir_.File("none/a")).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("none/a"))));
  std::filesystem::create_directory(dir_.File("b"));
  ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(dir_.File("b")));
  EXPECT_THAT(file.Commit(), StatusIs(absl::ErrnoToStatusCode(EISDIR), HasSubstr(dir_.File("b"))));
}

TEST_F(DurableFileTest, ReportsAFullDisk) {
  // Every write to this file fails with ENOSPC.
  std::filesystem::create_symlink("/dev/full", dir_.File("a.tmp"));
  ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(dir_.File("a")));
  EXPECT_THAT(file.Append("text", 4), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace ranklog::trainer
