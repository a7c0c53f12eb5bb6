#include "client/ring/spool/spool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/client/closed_descriptors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

using ::ranklog::testing::TempDir;
using ::testing::EndsWith;
using ::testing::StartsWith;

class SpoolPlaceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Spool> Create(const std::string& dir, size_t ring_bytes, uint32_t thread) {
    v1::Hello hello;
    hello.mutable_identity()->set_thread(thread);
    auto spool = Spool::Create({dir, ring_bytes}, hello);
    EXPECT_OK(spool);
    return *std::move(spool);
  }
  size_t BytesOf(size_t ring_bytes, uint32_t thread) {
    const auto spool = Create(dir_.path(), ring_bytes, thread);
    EXPECT_THAT(spool->path(), StartsWith(dir_.path()));
    EXPECT_EQ(spool->notice(), "");
    return spool->data_bytes();
  }
  TempDir dir_;
};

// Two hundred rings with one row each took 1.6 GiB.
TEST_F(SpoolPlaceTest, RingsOfLaterThreadsAreSmall) {
  EXPECT_EQ(BytesOf(8 << 20, 0), size_t{8} << 20);
  EXPECT_EQ(BytesOf(8 << 20, 1), size_t{512} << 10);
  EXPECT_EQ(BytesOf(64 << 20, 199), size_t{4} << 20);
  EXPECT_EQ(BytesOf(1 << 20, 1), size_t{512} << 10);
  EXPECT_EQ(BytesOf(64 << 10, 1), size_t{64} << 10);
}

TEST_F(SpoolPlaceTest, NoticeExplainsAlternativeDirectory) {
  const std::string open = dir_.File("open");
  const auto notice = [&] {
    const auto spool = Create(open, 64 << 10, 0);
    EXPECT_THAT(spool->notice(), EndsWith("; the spool is at " + spool->path()));
    spool->Unlink();
    return spool->notice();
  };
  ASSERT_EQ(mkdir(open.c_str(), 0777), 0);
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  EXPECT_THAT(notice(), StartsWith(open + " is writable by other users; run: chmod 700 " + open));
  // Ranklog's own files: a state directory in it, and its own store.
  ASSERT_EQ(mkdir((open + "/state").c_str(), 0700), 0);
  for (const char* ours : {"/state/ranklog.db", "/ranklog.db-wal", "/lock", "/ranklogd.log"}) {
    ASSERT_EQ(close(creat((open + ours).c_str(), 0600)), 0);
  }
  EXPECT_THAT(notice(), StartsWith(open + " is writable by other users; run: chmod 700 " + open));
  // Others may need the mode of a directory with other files, such as /tmp.
  ASSERT_EQ(close(creat((open + "/theirs").c_str(), 0600)), 0);
  EXPECT_THAT(notice(), StartsWith(open + " is writable by other users; choose a directory"));
  std::filesystem::remove_all(open);
  ASSERT_EQ(close(creat(open.c_str(), 0600)), 0);
  EXPECT_THAT(notice(), StartsWith(open + " is not a directory; choose a directory of your own"));
}

// With a slash at the end, the kernel follows the link.
TEST_F(SpoolPlaceTest, SlashAtEndDoesNotHideLink) {
  const std::string link = dir_.File("link"), missing = dir_.File("missing");
  ASSERT_EQ(symlink(dir_.path().c_str(), link.c_str()), 0);
  EXPECT_THAT(Create(link + "/", 64 << 10, 0)->notice(), StartsWith(link + " is a symbolic link"));
  const auto spool = Create(missing + "//", 64 << 10, 0);
  EXPECT_THAT(spool->path(), StartsWith(missing + "/ring-"));
  EXPECT_EQ(spool->notice(), "");
}

// The program still writes its messages to descriptor 2.
TEST_F(SpoolPlaceTest, TakesNoStandardDescriptor) {
  bool left_closed;
  {
    const testing::ClosedDescriptors closed;
    const auto spool = Spool::Create({dir_.path(), 64 << 10}, v1::Hello());
    left_closed = spool.ok() && closed.AreClosed();
  }
  EXPECT_TRUE(left_closed);
}

}  // namespace
}  // namespace ranklog::internal
