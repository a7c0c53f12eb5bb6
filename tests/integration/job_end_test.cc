// If Slurm ended a job, its reason is added to the reason of the job's runs. scontrol is a script
// here; interop/slurm_ends_test.cc has the real one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/node.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class JobEndTest : public ::testing::Test {
 protected:
  // Starts the daemon. scontrol records each call, then runs `script`.
  void StartWith(const std::string& script) {
    const std::string path = dir_.File("scontrol");
    std::ofstream(path) << "#!/bin/sh\necho \"$@\" >>" << Calls() << "\n" << script << "\n";
    chmod(path.c_str(), 0755);
    node_.StartWith(
        {{"PATH", absl::StrCat(dir_.path(), ":", getenv("PATH"))}, {"WANDB_API_KEY", "secret"}});
  }
  std::string Calls() const { return dir_.File("calls"); }
  void Answer(const std::string& state) const {
    std::ofstream(dir_.File("answer.new"))
        << "JobId=12 JobName=JobState=TIMEOUT\n   JobState=" << state
        << " Reason=None\n   Requeue=1 Restarts=0 ExitCode=0:15\n";
    rename(dir_.File("answer.new").c_str(), dir_.File("answer").c_str());
  }
  // Returns the run of a Slurm job whose rank ended in this way.
  model::Run EndedRun(const std::string& how, const std::string& job, int rank = 0) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment(how + job, rank, 0, rank + 1, 1);
    options.environment["SLURM_JOB_ID"] = job;
    options.environment["SLURM_STEP_ID"] = "0";
    options.environment["RANKLOG_LOG_STRATEGY"] = "all";
    RunToEnd({ENDING_RANK, how}, options);
    const std::string id = absl::StrCat(how, job, "-", rank);
    EXPECT_TRUE(WaitFor([&] { return node_.RunHasEnded(id); })) << id;
    return node_.GetRun(id);
  }
  std::string ReasonOf(const std::string& run_id) {
    EXPECT_TRUE(WaitFor([&] { return absl::StrContains(node_.GetRun(run_id).reason, "Slurm"); }));
    return node_.GetRun(run_id).reason;
  }

  TempDir dir_;
  Node node_;
};

TEST_F(JobEndTest, ScontrolIsPolledUntilJobEnds) {
  Answer("COMPLETING");
  StartWith("cat " + dir_.File("answer") + "; env >" + dir_.File("environment"));
  const std::string before = EndedRun("terminate", "12").reason;
  ASSERT_TRUE(WaitFor([&] { return !FileContent(dir_.File("environment")).empty(); }));
  Answer("CANCELLED");
  EXPECT_EQ(ReasonOf("terminate12-0"), "Slurm job 12 was cancelled (CANCELLED); " + before);
  EXPECT_EQ(FileContent(Calls()), "--details show job 12\n--details show job 12\n");
  EXPECT_THAT(FileContent(dir_.File("environment")), ::testing::Not(HasSubstr("WANDB")));
}

// It is not called for a job whose ranks report success, or on a node without the job's rank 0.
TEST_F(JobEndTest, ScontrolIsCalledOnlyWhenNeeded) {
  Answer("TIMEOUT");
  StartWith("cat " + dir_.File("answer"));
  EndedRun("exit-0", "10");
  EndedRun("terminate", "11", /*rank=*/1);
  EndedRun("terminate", "12");
  EXPECT_THAT(ReasonOf("terminate12-0"), StartsWith("Slurm job 12 reached its time limit"));
  EXPECT_EQ(FileContent(Calls()), "--details show job 12\n");
}

// All runs of a node share one answer, also those that end later.
TEST_F(JobEndTest, ScontrolAnswerCoversAllRuns) {
  Answer("NODE_FAIL");
  StartWith("cat " + dir_.File("answer"));
  EndedRun("terminate", "12");
  EXPECT_THAT(ReasonOf("terminate12-0"), StartsWith("Slurm job 12 lost a node (NODE_FAIL)"));
  EndedRun("kill", "12", /*rank=*/1);
  EXPECT_THAT(ReasonOf("kill12-1"), StartsWith("Slurm job 12 lost a node (NODE_FAIL)"));
  EXPECT_EQ(FileContent(Calls()), "--details show job 12\n");
}

TEST_F(JobEndTest, MissingScontrolKeepsRankReason) {
  node_.StartWith({{"PATH", dir_.path()}});
  const std::string reason = EndedRun("terminate", "12").reason;
  ASSERT_TRUE(
      WaitFor([&] { return node_.LogCount("cannot find out why Slurm ended job 12: ") > 0; }));
  EXPECT_EQ(node_.GetRun("terminate12-0").reason, reason);
  EXPECT_EQ(node_.Terminate(), 0);
}

TEST_F(JobEndTest, LogReportsEmptyScontrolOutput) {
  StartWith("echo 'scontrol: fatal: Could not establish a configuration source' >&2; exit 1");
  EndedRun("terminate", "12");
  EXPECT_TRUE(WaitFor([&] {
    return node_.LogCount(
               "cannot find out yet why Slurm ended job 12: scontrol printed nothing; if scontrol "
               "cannot find slurm.conf, set SLURM_CONF for ranklogd") == 1;
  }));
}

TEST_F(JobEndTest, HangingScontrolDoesNotDelayStop) {
  StartWith("trap '' TERM; sleep 1000 & echo $! >" + dir_.File("sleep") + "; wait");
  EndedRun("terminate", "12");
  ASSERT_TRUE(WaitFor([&] { return !FileContent(dir_.File("sleep")).empty(); }));
  EXPECT_EQ(node_.Terminate(), 0);
  const std::string pid = FileContent(dir_.File("sleep"));
  EXPECT_TRUE(WaitFor([&] {
    return FileContent("/proc/" + pid.substr(0, pid.size() - 1) + "/cmdline").empty();
  })) << "what it started lives";
}

}  // namespace
}  // namespace ranklog::testing
