#include "service/import/run_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/service/import/log_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::imports {
namespace {

using ::ranklog::testing::LogBuilder;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::ElementsAre;

class RunLogsTest : public ::testing::Test {
 protected:
  TempDir dir_;
};

TEST_F(RunLogsTest, FindsFileDirectoryAndDirectoryOfDirectories) {
  LogBuilder a(dir_.path(), "offline-run-a", "a");
  LogBuilder b(dir_.path(), "offline-run-b", "b");
  std::filesystem::create_directory_symlink(a.dir(), dir_.path() + "/latest-run");
  EXPECT_EQ(FindLogs(a.path()).value(), std::vector<std::string>{a.path()});
  EXPECT_EQ(FindLogs(a.dir()).value(), std::vector<std::string>{a.path()});
  EXPECT_THAT(FindLogs(dir_.path()).value(), ElementsAre(a.path(), b.path()));
  EXPECT_THAT(FindLogs(dir_.path() + "/absent"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(FindLogs(a.dir() + "/files"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(RunLogsTest, LeavesOnlineRunsOutUnlessNamed) {
  LogBuilder offline(dir_.path(), "offline-run-a", "a");
  LogBuilder online(dir_.path(), "run-20260101_000000-b", "b");
  EXPECT_THAT(FindLogs(dir_.path()).value(), ElementsAre(offline.path()));
  EXPECT_THAT(FindLogs(online.dir()).value(), ElementsAre(online.path()));
}

TEST_F(RunLogsTest, ReadsRunOfLog) {
  LogBuilder log(dir_.path(), "offline-run-a", "a");
  EXPECT_THAT(ReadRunLog(log.path()), StatusIs(absl::StatusCode::kFailedPrecondition));
  log.Run();
  const auto read = ReadRunLog(log.path());
  ASSERT_OK(read);
  EXPECT_EQ(read->name, "offline-run-a");
  EXPECT_EQ(read->run.run_id(), "a");
  EXPECT_EQ(read->started_us, LogBuilder::kStart * 1000000);
  EXPECT_FALSE(read->IsSynced());
  std::ofstream(log.path() + ".synced").close();
  EXPECT_TRUE(read->IsSynced());
}

TEST_F(RunLogsTest, CopyHasSameIdAndOtherPartAnother) {
  LogBuilder log(dir_.path(), "one", "a");
  log.Run();
  LogBuilder part(dir_.path(), "two", "a");
  part.Run({}, /*start=*/100);
  std::filesystem::copy(log.dir(), dir_.path() + "/copy", std::filesystem::copy_options::recursive);
  const uint64_t id = ReadRunLog(log.path())->id;
  EXPECT_EQ(ReadRunLog(dir_.path() + "/copy/run-a.wandb")->id, id);
  EXPECT_NE(ReadRunLog(part.path())->id, id);
}

TEST_F(RunLogsTest, TargetHasWhatIsGivenInstead) {
  LogBuilder log(dir_.path(), "one", "a");
  log.Run();
  const RunLog read = ReadRunLog(log.path()).value();
  EXPECT_EQ(TargetOf(read, {}), (Target{"fake-team", "gpt", "a"}));
  EXPECT_EQ(TargetOf(read, {.entity = "e", .project = "p", .run_id = "i"}),
            (Target{"e", "p", "i"}));
  RunLog without = read;
  without.run.clear_project();
  EXPECT_EQ(TargetOf(without, {}).project, "uncategorized");
}

}  // namespace
}  // namespace ranklog::imports
