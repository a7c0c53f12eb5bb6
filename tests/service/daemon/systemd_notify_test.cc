#include "service/daemon/process/systemd_notify.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/notify_socket.h"
#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

using ::ranklog::testing::NotifySocket;

TEST(NotifyTest, ReachesFilesystemSocket) {
  const testing::TempDir dir;
  const NotifySocket systemd(dir.File("notify"));
  NotifySystemd(dir.File("notify"), "READY=1");
  NotifySystemd(dir.File("notify"), "STOPPING=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
  EXPECT_EQ(systemd.Take(), "STOPPING=1");
}

TEST(NotifyTest, ReachesAnAbstractSocket) {
  const testing::TempDir dir;  // its path is a unique name
  const NotifySocket systemd("@" + dir.path());
  NotifySystemd("@" + dir.path(), "READY=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
}

TEST(NotifyTest, MissingSocketIsIgnored) {
  const testing::TempDir dir;
  NotifySystemd("", "READY=1");
  NotifySystemd(dir.File("nobody"), "READY=1");
  NotifySystemd(dir.File(std::string(200, 'x')), "READY=1");  // too long for a socket's name
  const NotifySocket full(dir.File("full"));
  for (int i = 0; i < 10'000; ++i) NotifySystemd(dir.File("full"), "READY=1");
  EXPECT_EQ(full.Take(), "READY=1");
}

}  // namespace
}  // namespace ranklog::daemon
