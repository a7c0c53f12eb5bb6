// However a rank ends, its run records how, and has every row.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/kernel.h"

namespace ranklog::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EndsTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  // Returns the run of a rank that ended in this way. `wrap`: a command that starts the rank.
  model::Run RunOfARankThatEndsBy(const std::string& how, std::vector<std::string> wrap = {}) {
    std::vector<std::string> args = std::move(wrap);
    args.insert(args.end(), {ENDING_RANK, how});
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment(how, 0, 0, 1, 1);
    // let the signal end the process, as without the sanitizer
    options.environment["ASAN_OPTIONS"] = "handle_segv=0";
    ChildProcess rank(args, options);
    rank.Wait();
    EXPECT_TRUE(WaitFor([&] { return node_.RunHasEnded(how); })) << how;
    const model::Run run = node_.GetRun(how);
    const auto streams = node_.Reader()->Streams(run.id);
    EXPECT_EQ(streams->size(), 1u) << how;
    for (const model::Stream& stream : *streams) {
      EXPECT_EQ(stream.durable_seq, 200u) << how;
    }
    return run;
  }

  // A kernel before 6.15 reports the end only until the parent reaps the rank, which may happen
  // earlier.
  static ::testing::Matcher<std::string> Says(const std::string& how) {
    const std::string known = absl::StrCat(") ", how, " without Finish()");
    if (PidfdReportsExitStatus()) return HasSubstr(known);
    return AnyOf(HasSubstr(known), HasSubstr(") ended without Finish()"));
  }

  Node node_;
};

TEST_F(EndsTest, RunRecordsSignalOfRank) {
  std::map<std::string, std::string> ends = {
      {"segfault", "was killed by signal 11 (Segmentation fault)"},
      {"abort", "was killed by signal 6 (Aborted)"},
      {"exception", "was killed by signal 6 (Aborted)"},
      {"no-memory", "was killed by signal 6 (Aborted)"},
      {"kill", "was killed by signal 9 (Killed)"},
      {"terminate", "was killed by signal 15 (Terminated)"},
      {"crash-after", "was killed by signal 6 (Aborted)"}};
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  ends.erase("no-memory");  // the sanitizer's own address space exceeds any limit
#endif
  for (const auto& [how, said] : ends) {
    const model::Run run = RunOfARankThatEndsBy(how);
    EXPECT_EQ(run.state, model::RunState::kCrashed) << how;
    EXPECT_THAT(run.reason, Says(said)) << how;
  }
}

// Nobody can send these counts: the rank is killed at once, and its ring has no name any more.
TEST_F(EndsTest, RowsRefusedAfterFinishAreCounted) {
  const model::Run run = RunOfARankThatEndsBy("refused");
  EXPECT_EQ(run.state, model::RunState::kFinished);
  EXPECT_TRUE(WaitFor([&] {
    return node_.Reader()->Streams(run.id)->front().losses == model::Losses{.after_finish = 7};
  }));
}

// `return` runs the run's destructor before the exit code is known; `exit` does not run it.
TEST_F(EndsTest, ExitCodeWithoutFinishEndsRun) {
  SKIP_WITHOUT(PidfdReportsExitStatus(),
               "exit codes of processes that others reap, as of Linux 6.15");
  for (const std::string how : {"exit", "return"}) {
    const model::Run well = RunOfARankThatEndsBy(how + "-0");
    EXPECT_EQ(well.state, model::RunState::kFinished) << how;
    EXPECT_THAT(well.reason, IsEmpty()) << how;
    const model::Run failed = RunOfARankThatEndsBy(how + "-5");
    EXPECT_EQ(failed.state, model::RunState::kFailed) << how;
    EXPECT_EQ(failed.exit_code, 5) << how;
    EXPECT_THAT(failed.reason, HasSubstr(") exited with code 5 without Finish()")) << how;
  }
}

// The daemon never saw the process, and knows only what the ring contains.
TEST_F(EndsTest, RingDecidesEndOfUnattachedRank) {
  node_.Kill();
  const std::map<std::string, model::RunState> ends = {{"exit-0", model::RunState::kFinished},
                                                       {"exit-5", model::RunState::kFailed},
                                                       {"return-0", model::RunState::kFinished},
                                                       {"return-5", model::RunState::kFailed},
                                                       {"kill", model::RunState::kCrashed}};
  for (const auto& [how, state] : ends) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment(how, 0, 0, 1, 1);
    RunToEnd({ENDING_RANK, "early", how}, options);
  }
  node_.Start();
  for (const auto& [how, state] : ends) {
    ASSERT_TRUE(WaitFor([&, &how = how] { return node_.RunHasEnded(how); })) << how;
    const model::Run run = node_.GetRun(how);
    EXPECT_EQ(run.state, state) << how << ": " << run.reason;
    EXPECT_EQ(run.rows, 200u) << how;
    if (state != model::RunState::kCrashed) {
      EXPECT_EQ(run.exit_code, state == model::RunState::kFailed ? 5 : 0) << how;
    }
  }
  EXPECT_THAT(node_.GetRun("exit-5").reason, HasSubstr(") exited with code 5 without Finish()"));
  EXPECT_THAT(
      node_.GetRun("kill").reason,
      HasSubstr(") ended without Finish(); exit status unknown: no daemon saw its process"));
}

// Its process has other things to do.
TEST_F(EndsTest, DestroyedRunFinishesBeforeProcessEnds) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("destroyed", 0, 0, 1, 1);
  ChildProcess rank({ENDING_RANK, "destroyed"}, options);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("destroyed"); }));
  EXPECT_EQ(rank.Wait(absl::ZeroDuration()), absl::nullopt);
  EXPECT_EQ(node_.GetRun("destroyed").state, model::RunState::kFinished);
  EXPECT_EQ(node_.GetRun("destroyed").rows, 200u);
}

// Like a launcher that restarts a rank by exec(): the process stays the same.
TEST_F(EndsTest, SelfExecRestartsTheRank) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("exec", 0, 0, 1, 1);
  ChildProcess rank({ENDING_RANK, "exec"}, options);
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("exec"); }));
  const model::Run run = node_.GetRun("exec");
  EXPECT_EQ(run.state, model::RunState::kFinished) << run.reason;
  EXPECT_EQ(run.rows, 400u);
  EXPECT_EQ(run.late_rows, 0u);
  const auto streams = node_.Reader()->Streams(run.id);
  ASSERT_EQ(streams->size(), 2u);
  EXPECT_EQ(streams->at(0).state, model::StreamState::kCrashed);
  EXPECT_THAT(streams->at(0).reason,
              HasSubstr("released its spool without Finish(), for example by exec()"));
}

TEST_F(EndsTest, ExecOfOtherProgramEndsRank) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("exec", 0, 0, 1, 1);
  ChildProcess rank({ENDING_RANK, "exec-other"}, options);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("exec"); })) << "while its process runs";
  EXPECT_EQ(rank.Wait(absl::ZeroDuration()), absl::nullopt);
  EXPECT_EQ(node_.GetRun("exec").state, model::RunState::kCrashed);
  EXPECT_EQ(node_.GetRun("exec").rows, 200u);
}

TEST_F(EndsTest, FirstRowDuringFinishIsHarmless) {
  for (int i = 0; i < 14; ++i) {
    const std::string job = absl::StrCat("late-", i);
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment(job, 0, 0, 1, 1);
    options.environment["RANKLOG_SPOOL_BYTES"] = "16777216";  // takes a while to reserve
    const Finished rank = RunToEnd({ENDING_RANK, "late-thread"}, options);
    ASSERT_EQ(rank.code, 0) << rank.output;
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(job); }));
    ASSERT_EQ(node_.GetRun(job).state, model::RunState::kFinished) << node_.GetRun(job).reason;
  }
  EXPECT_TRUE(WaitFor([&] { return std::filesystem::is_empty(node_.spool_dir()); }));
}

// New threads get the rings of ended ones, but not their steps.
TEST_F(EndsTest, ThreadsReusingRingsLoseNothing) {
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("threads", 0, 0, 1, 1);
  const Finished rank = RunToEnd({ENDING_RANK, "threads"}, options);
  ASSERT_EQ(rank.code, 0) << rank.output;
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("threads"); }));
  const model::Run run = node_.GetRun("threads");
  EXPECT_EQ(run.state, model::RunState::kFinished) << run.reason;
  EXPECT_EQ(run.rows, 800u);
  EXPECT_LE(run.late_rows, 300u) << "those of the eight are in time";
  uint64_t rows = 0;
  const auto streams = node_.Reader()->Streams(run.id);
  for (const model::Stream& stream : *streams) rows += stream.durable_seq;
  EXPECT_EQ(rows, 200u + 6 * 8 * 100 + 300);
  EXPECT_TRUE(WaitFor([&] { return std::filesystem::is_empty(node_.spool_dir()); }));
}

// An own memory cgroup of 256 MiB, v1 or v2. If they are mounted elsewhere, the daemon does not
// find them either.
class MemoryCgroup {
 public:
  MemoryCgroup() {
    usable_ = MakeBelow("/sys/fs/cgroup/memory", "/memory.limit_in_bytes") ||
              MakeBelow("/sys/fs/cgroup", "/memory.max");
  }
  ~MemoryCgroup() { rmdir(path_.c_str()); }
  bool usable() const { return usable_; }
  // A shell that enters it, then becomes the command that follows.
  std::vector<std::string> Enter() const {
    return {"/bin/sh", "-c", absl::StrCat("echo $$ > ", path_, "/cgroup.procs && exec \"$@\""),
            "sh"};
  }

 private:
  bool MakeBelow(const std::string& hierarchy, const std::string& limit) {
    if (!std::filesystem::exists(hierarchy + "/cgroup.procs")) return false;
    // In v2, a child gets only controllers that its parent lists. Without systemd, no process has
    // listed them.
    std::ofstream(hierarchy + "/cgroup.subtree_control", std::ios::in) << "+memory" << std::flush;
    path_ = absl::StrCat(hierarchy, "/ranklog-", getpid());
    return mkdir(path_.c_str(), 0755) == 0 &&
           static_cast<bool>(std::ofstream(path_ + limit, std::ios::in)
                             << (256 << 20) << std::flush);
  }

  std::string path_;
  bool usable_ = false;
};

TEST_F(EndsTest, RunRecordsOutOfMemoryKill) {
  const MemoryCgroup cgroup;
  // RunRecordsSignalOfRank has a rank that runs out of memory by RLIMIT_AS.
  SKIP_WITHOUT(cgroup.usable(), "memory cgroups of this kernel or container");
  const model::Run run = RunOfARankThatEndsBy("memory", cgroup.Enter());
  EXPECT_EQ(run.state, model::RunState::kCrashed);
  EXPECT_THAT(run.reason, Says("was killed by signal 9 (Killed) for lack of memory"));
}

}  // namespace
}  // namespace ranklog::testing
