// Trainings that run out of descriptors or memory while the sender works. gRPC ends the process if
// it gets none, but a log must never end a training.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/base/config.h"
#include "tests/client/fake_ingest.h"
#include "tests/client/ring_file.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

class StarvedTest : public ::testing::Test {
 protected:
  void SetUp() override { daemon_.Start(); }

  // Returns the number that the program prints after the library's messages.
  static size_t Rows(std::string output) {
    while (output.rfind("ranklog: ", 0) == 0) output.erase(0, output.find('\n') + 1);
    return static_cast<size_t>(atol(output.c_str()));
  }

  Finished Starve(const std::string& what, int left, const std::string& when = "") {
    return RunToEnd({STARVED_PROGRAM, what, std::to_string(left), when}, options_,
                    absl::Seconds(120));
  }

  // Checks that the training ends as it would without Ranklog, and that every logged row arrived.
  std::string ExpectUnharmed(const std::string& what, int left, const std::string& when) {
    const size_t before = daemon_.row_count();
    const Finished rank = Starve(what, left, when);
    EXPECT_EQ(rank.code, 0) << left << " left: " << rank.output;
    EXPECT_EQ(daemon_.row_count() - before, Rows(rank.output)) << left << " left: " << rank.output;
    return rank.output;
  }

  TempDir dir_;
  FakeIngest daemon_{dir_.File("sock")};
  ChildProcess::Options options_{{{"RANKLOG_ADDRESS", "unix:" + dir_.File("sock")},
                                  {"RANKLOG_SPOOL_DIR", dir_.path()},
                                  {"RANKLOG_START_DAEMON", "0"},
                                  {"RANKLOG_FLUSH_INTERVAL_MS", "10"}},
                                 {},
                                 ""};
};

TEST_F(StarvedTest, SurvivesFewDescriptorsAtStart) {
  for (int left = 0; left < 40; ++left) {
    const std::string said = ExpectUnharmed("descriptors", left, "first");
    if (left == 5) {
      EXPECT_THAT(said, HasSubstr("too few file descriptors"));
    }
    if (left == 39) {
      EXPECT_THAT(said, HasSubstr("connected"));
    }
  }
}

// Some open descriptors are the connection's, and become free when the sender leaves it.
TEST_F(StarvedTest, SurvivesFewDescriptorsAtReconnect) {
  for (int left = -8; left < 30; ++left) {
    const std::string said = ExpectUnharmed("descriptors", left, "again");
    if (left == 0) {
      EXPECT_THAT(said, HasSubstr("too few file descriptors"));
    }
    if (left == 29) {
      EXPECT_THAT(said, HasSubstr("connected"));
    }
  }
}

#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr int kMemoryLeft[] = {0,   1,   5,   10,  20,  40,  60,  80,  100, 130, 160, 200,
                               240, 300, 360, 420, 480, 540, 580, 600, 620, 700, 1000};

TEST_F(StarvedTest, SurvivesLittleMemoryAtStart) {
  for (const int left : kMemoryLeft) ExpectUnharmed("memory", left, "first");
}

TEST_F(StarvedTest, SurvivesLittleMemoryAtReconnect) {
  for (const int left : kMemoryLeft) ExpectUnharmed("memory", left, "again");
}
#endif

// Tests the allocations of our own code. If one of gRPC's fails, gRPC ends the process.
TEST_F(StarvedTest, FailedAllocationEndsTheSenderOnly) {
  int number = 0;
  for (bool failed = true; failed; ++number) {
    const Finished rank = Starve("allocation", number);
    ASSERT_EQ(rank.code, 0) << rank.output;
    failed = rank.output.find("not failed") == std::string::npos;
    ASSERT_THAT(rank.output, HasSubstr("10 rows"));
    for (const std::string& path : RingPaths(dir_.path())) {
      const RingFile ring = ReadRing(path);
      EXPECT_EQ(ring.error, "");
      EXPECT_EQ(ring.published_rows, 10u);
      unlink(path.c_str());
    }
  }
  EXPECT_GT(number, 20);
}

}  // namespace
}  // namespace ranklog::testing
