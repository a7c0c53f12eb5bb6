// Whole processes that end in every way. The daemon is another process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/client/fake_ingest.h"
#include "tests/client/ring_file.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ProcessTest : public ::testing::Test {
 protected:
  Finished Rank(const std::string& how, int count) {
    return RunToEnd({RANK_PROGRAM, how, std::to_string(count)}, options_, absl::Seconds(120));
  }

  TempDir dir_;
  FakeIngest daemon_{dir_.File("sock")};
  ChildProcess::Options options_{{{"RANKLOG_ADDRESS", "unix:" + dir_.File("sock")},
                                  {"RANKLOG_SPOOL_DIR", dir_.path()},
                                  {"RANKLOG_START_DAEMON", "0"},
                                  {"RANKLOG_QUIET", "1"},
                                  {"RANKLOG_FLUSH_INTERVAL_MS", "10"}},
                                 {},
                                 ""};
};

// Exit code of a program that ends in some way, with and without a daemon; minus the signal if one
// ended it.
class ProcessEndTest : public ProcessTest,
                       public ::testing::WithParamInterface<std::pair<const char*, int>> {};

TEST_P(ProcessEndTest, ExitCodeAndRingRowsSurvive) {  // S19
  const auto [how, code] = GetParam();
  const Finished alone = Rank(how, 50);
  EXPECT_EQ(alone.code, code) << alone.output;
  const std::vector<std::string> paths = RingPaths(dir_.path());
  ASSERT_THAT(paths, SizeIs(1));
  const RingFile ring = ReadRing(paths[0]);
  EXPECT_EQ(ring.error, "");
  EXPECT_GE(ring.rows.size(), 50u);
  unlink(paths[0].c_str());

  daemon_.Start();
  for (int i = 0; i < 10; ++i) {
    const Finished attached = Rank(how, 50);
    ASSERT_EQ(attached.code, code) << attached.output;
  }
  EXPECT_EQ(daemon_.error(), "");
}

INSTANTIATE_TEST_SUITE_P(All, ProcessEndTest,
                         ::testing::Values(std::pair("return", 0), std::pair("exit", 5),
                                           std::pair("_exit", 6), std::pair("abort", -SIGABRT),
                                           std::pair("throw", -SIGABRT), std::pair("static", 0),
                                           std::pair("thread_exit", 7)),
                         [](const auto& info) { return std::string(info.param.first); });

TEST_F(ProcessTest, FinishedRanksLeaveNothingBehind) {
  daemon_.Start();
  const Finished rank = Rank("finish", 1000);
  EXPECT_EQ(rank.code, 0);
  EXPECT_THAT(rank.output, HasSubstr("1000 rows, durable"));
  EXPECT_EQ(daemon_.row_count(), 1000u);
  EXPECT_THAT(RingPaths(dir_.path()), IsEmpty());
}

TEST_F(ProcessTest, LoggingSignalHandlersLoseNoRows) {
  daemon_.Start();
  const Finished rank = Rank("handlers", 5000);
  ASSERT_EQ(rank.code, 0) << rank.output;
  EXPECT_EQ(static_cast<long>(daemon_.row_count()), atol(rank.output.c_str())) << rank.output;
  EXPECT_EQ(daemon_.error(), "");
  EXPECT_THAT(RingPaths(dir_.path()), IsEmpty());
}

TEST_F(ProcessTest, CancelledThreadsEndAfterTheirCalls) {
  daemon_.Start();
  const Finished rank = Rank("cancelled", 20);
  ASSERT_EQ(rank.code, 0) << rank.output;
  EXPECT_EQ(static_cast<long>(daemon_.row_count()), atol(rank.output.c_str())) << rank.output;
  EXPECT_EQ(daemon_.error(), "");
}

TEST_F(ProcessTest, RanksStartOneDetachedDaemon) {  // S21
  const std::string script = dir_.File("fake-ranklogd");
  {
    std::ofstream file(script);
    file << "#!/bin/sh\n"
         << "echo \"$$ $(cut -d' ' -f6 /proc/$$/stat) $RANKLOG_STARTED_BY $*\" >> "
         << dir_.File("started") << "\n"
         << "exec sleep 5\n";
  }
  chmod(script.c_str(), 0700);
  options_.environment["RANKLOG_START_DAEMON"] = "1";
  options_.environment["RANKLOG_DAEMON"] = script;
  options_.environment["RANKLOG_STATE_DIR"] = dir_.File("state");
  // The first rank starts the daemon. It still waits for an answer when the second rank has ended.
  options_.environment["RANKLOG_FINISH_TIMEOUT_MS"] = "120000";
  ChildProcess first({RANK_PROGRAM, "finish", "5"}, options_);
  ASSERT_TRUE(WaitFor([&] { return access(dir_.File("started").c_str(), F_OK) == 0; }));
  options_.environment["RANKLOG_FINISH_TIMEOUT_MS"] = "500";
  ChildProcess second({RANK_PROGRAM, "finish", "5"}, options_);
  EXPECT_EQ(second.Wait().value_or(-1), 3);  // spooled: no daemon answers
  first.Kill();
  std::ifstream file(dir_.File("started"));
  std::string line, more;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_FALSE(std::getline(file, more)) << more;
  std::istringstream words(line);
  pid_t pid = 0, session = 0;
  std::string started_by;
  words >> pid >> session >> started_by;
  EXPECT_EQ(pid, session) << "no session of its own: " << line;
  EXPECT_EQ(started_by, "rank");
  EXPECT_THAT(line, HasSubstr("--listen unix:" + dir_.File("sock")));
  EXPECT_THAT(line, HasSubstr("--state-dir " + dir_.File("state")));
  EXPECT_THAT(line, HasSubstr("--spool-dir " + dir_.path()));
  struct stat info;
  ASSERT_EQ(stat(dir_.File("ranklogd.log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace ranklog::testing
