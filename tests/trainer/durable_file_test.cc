#include "trainer/durable_file.h"

#include <filesystem>
#include <fstream>

#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::FileContent;
using ::ranklog::testing::StatusIs;
using ::testing::HasSubstr;

class DurableFileTest : public ::testing::Test {
 protected:
  size_t Files() const {
    return std::distance(std::filesystem::directory_iterator(dir_.path()),
                         std::filesystem::directory_iterator());
  }
  ranklog::testing::TempDir dir_;
};

TEST_F(DurableFileTest, HasItsNameOnceItIsWhole) {
  std::ofstream(dir_.File("a")) << "old";
  ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(dir_.File("a")));
  ASSERT_OK(file.Append("new ", 4));
  ASSERT_OK(file.Append("text", 4));
  EXPECT_EQ(FileContent(dir_.File("a")), "old");
  ASSERT_OK(file.Commit());
  EXPECT_EQ(FileContent(dir_.File("a")), "new text");
  EXPECT_EQ(Files(), 1u);
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
  // Every write to it fails with ENOSPC.
  std::filesystem::create_symlink("/dev/full", dir_.File("a.tmp"));
  ASSERT_OK_AND_ASSIGN(DurableFile file, DurableFile::Create(dir_.File("a")));
  EXPECT_THAT(file.Append("text", 4), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace ranklog::trainer
