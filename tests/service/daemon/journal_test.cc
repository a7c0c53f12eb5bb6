#include "service/daemon/process/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

TEST(JournalTest, IdentifiesStreamByDeviceAndInode) {
  const testing::TempDir dir;
  const int fd = open(dir.File("journal").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  struct stat info {};
  ASSERT_EQ(fstat(fd, &info), 0);
  unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(GoesToJournal(fd));
  setenv("JOURNAL_STREAM",
         (std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino)).c_str(), 1);
  EXPECT_TRUE(GoesToJournal(fd));
  // JOURNAL_STREAM may be inherited by a process whose output was redirected
  EXPECT_FALSE(GoesToJournal(STDIN_FILENO));
  EXPECT_FALSE(GoesToJournal(-1));
  unsetenv("JOURNAL_STREAM");
  close(fd);
}

TEST(JournalTest, LinesBeginWithTheirPriority) {
  const auto before = spdlog::default_logger();
  std::ostringstream text;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "journal", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  LogForJournal();
  spdlog::info("a");
  spdlog::warn("b");
  spdlog::error("c");
  EXPECT_EQ(text.str(), "<6>a\n<4>b\n<3>c\n");
  spdlog::set_default_logger(before);
  spdlog::set_pattern("%+");
}

}  // namespace
}  // namespace ranklog::daemon
