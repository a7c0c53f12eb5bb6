// A real Slurm ends a job, and its run records why.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/interop/slurm_cluster.h"
#include "tests/support/absent.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class SlurmEndsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(SlurmCluster::Installed(), "Slurm (slurmctld, slurmd, munge), and root to run it");
    SKIP_WITHOUT(SlurmCluster::HasCgroups(), "the cgroups freezer and memory, of version 1");
    cluster_.AddProgram(LOGGING_RANK);
    cluster_.AddProgram(ENDING_RANK);
  }
  std::string Submit(std::vector<std::string> args, const std::string& script) {
    args.insert(args.begin(), {"-N1", "-n2", "-w", "n1"});
    args.insert(args.end(), {"--wrap", script});
    return cluster_.Submit(args,
                           {{"RANKLOG_START_DAEMON", "false"}, {"RANKLOG_DESTINATIONS", "local"}});
  }
  // Returns the run of step 0 of the job; null before it exists. The job has two ranks, since a
  // single rank would get a random run id.
  json RunOf(const std::string& job) {
    for (json& run : cluster_.RunsOn("n1")) {
      if (run["run_id"] == absl::StrCat("slurm-", job, "-0")) return run;
    }
    return nullptr;
  }
  bool Logs(const std::string& job) {
    return WaitFor([&] {
      const json run = RunOf(job);
      return run != nullptr && run["rows"] > 0;
    });
  }
  // Waits for a reason from Slurm, and returns it.
  std::string ReasonOf(const std::string& job) {
    json run;
    EXPECT_TRUE(WaitFor([&] {
      run = RunOf(job);
      return run != nullptr && absl::StrContains(run.value("reason", ""), "Slurm");
    })) << run;
    EXPECT_EQ(run["state"], "crashed");
    return run.value("reason", "");
  }

  SlurmCluster cluster_;
};

constexpr char kLogForLong[] = "srun -n2 logging_rank 1000000 0 1000";

TEST_F(SlurmEndsTest, CancelledJobIsNamedInReason) {
  cluster_.Start({});
  const std::string job = Submit({}, kLogForLong);
  ASSERT_TRUE(Logs(job));
  cluster_.Run({"scancel", job});
  EXPECT_THAT(
      ReasonOf(job),
      AllOf(StartsWith(absl::StrCat("Slurm job ", job, " was cancelled (CANCELLED); rank ")),
            HasSubstr("was killed by signal 15 (Terminated)")));
}

TEST_F(SlurmEndsTest, MemoryKillIsNamedInReason) {
  cluster_.Start({.conf = {"SelectTypeParameters=CR_Core_Memory"}});
  const std::string job = Submit({"--mem=100"}, "srun -n2 ending_rank memory");
  EXPECT_THAT(
      ReasonOf(job),
      AllOf(StartsWith(absl::StrCat("Slurm job ", job, " ran out of memory (OUT_OF_MEMORY)")),
            HasSubstr("was killed by signal 9 (Killed) for lack of memory")));
}

// Slurm checks time limits every 30 s of the wall clock, which the test sets.
TEST_F(SlurmEndsTest, TimeLimitIsNamedInReason) {
  const std::string clock = cluster_.File("clock");
  int64_t offset_ns = 0;
  std::ofstream(clock).write(reinterpret_cast<const char*>(&offset_ns), sizeof offset_ns);
  cluster_.Start({.environment = {{"LD_PRELOAD", SET_CLOCK}, {"RANKLOG_TEST_CLOCK", clock}}});
  const std::string job = Submit({"--time=1"}, kLogForLong);
  ASSERT_TRUE(Logs(job));
  offset_ns = absl::ToInt64Nanoseconds(absl::Minutes(2));
  const int fd = open(clock.c_str(), O_WRONLY);
  EXPECT_EQ(pwrite(fd, &offset_ns, sizeof offset_ns, 0), sizeof offset_ns);
  close(fd);
  EXPECT_THAT(ReasonOf(job),
              StartsWith(absl::StrCat("Slurm job ", job, " reached its time limit (TIMEOUT)")));
}

TEST_F(SlurmEndsTest, PreemptedJobContinuesItsRun) {
  cluster_.Start({.conf = {"PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE",
                           "PartitionName=urgent Nodes=n1,n2 PriorityTier=10 State=UP"}});
  const std::string job =
      Submit({"--requeue", "--exclusive", "--open-mode=append"},
             "if [ -z \"$SLURM_RESTART_COUNT\" ]; then srun -n2 logging_rank 1000000 0 1000; "
             "else srun -n2 logging_rank 10 0 0 '' 5; fi");
  ASSERT_TRUE(Logs(job));
  const std::string urgent = Submit({"-p", "urgent", "--exclusive"}, "sleep 1000");
  EXPECT_THAT(ReasonOf(job), StartsWith(absl::StrCat("Slurm job ", job,
                                                     " was queued again (preempted or requeued)")));
  cluster_.Run({"scancel", urgent});
  ASSERT_TRUE(cluster_.StartAgain(job));
  EXPECT_TRUE(WaitFor([&] { return RunOf(job)["state"] == "finished"; })) << RunOf(job);
  const json run = RunOf(job);
  EXPECT_EQ(run["last_step"], 14) << run;
  EXPECT_EQ(run["reason"], "") << run;
  EXPECT_THAT(cluster_.RunsOn("n1"), SizeIs(1)) << "the requeued job has a run of its own";
}

}  // namespace
}  // namespace ranklog::testing
