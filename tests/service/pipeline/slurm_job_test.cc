#include "service/pipeline/job_end/slurm_job.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ranklog::pipeline {
namespace {

// Output of Slurm 22.05, shortened.
std::string Record(const std::string& state, const std::string& restarts = "0",
                   const std::string& more = "") {
  return absl::StrCat("JobId=12 JobName=train JobState=TIMEOUT Restarts=9\n",
                      "   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A\n",
                      "   JobState=", state, " Reason=None Dependency=(null)\n",
                      "   Requeue=1 Restarts=", restarts, " BatchFlag=1 Reboot=0 ExitCode=0:15\n",
                      more,
                      "   Comment=x\n   Command=/home/JobState=CANCELLED\n   Power=\n   \n\n");
}

TEST(SlurmJobTest, NamesTheJob) {
  EXPECT_EQ(SlurmJobId("slurm-12.0"), "12");
  EXPECT_EQ(SlurmJobId("slurm-12"), "12");
  EXPECT_EQ(SlurmJobId(""), "");
  EXPECT_EQ(SlurmJobId("pbs-12"), "");
  EXPECT_EQ(SlurmJobId("slurm-"), "");
  EXPECT_EQ(SlurmJobId("slurm---all.0"), "") << "a flag";
  EXPECT_EQ(SlurmJobId("slurm-1,2"), "");
  EXPECT_EQ(SlurmJobId("slurm-" + std::string(21, '1')), "");
}

TEST(SlurmJobTest, ReportsWhySlurmEndedJob) {
  EXPECT_EQ(SlurmEndReason(Record("CANCELLED"), "12", 0), "Slurm job 12 was cancelled (CANCELLED)");
  EXPECT_EQ(SlurmEndReason(Record("TIMEOUT"), "12", 0),
            "Slurm job 12 reached its time limit (TIMEOUT)");
  EXPECT_EQ(SlurmEndReason(Record("NODE_FAIL"), "12", 0), "Slurm job 12 lost a node (NODE_FAIL)");
  EXPECT_EQ(SlurmEndReason(Record("PREEMPTED"), "12", 0), "Slurm job 12 was preempted (PREEMPTED)");
  EXPECT_EQ(SlurmEndReason(Record("OUT_OF_MEMORY"), "12", 0),
            "Slurm job 12 ran out of memory (OUT_OF_MEMORY)");
}

TEST(SlurmJobTest, OomStepExplainsFailedJob) {
  EXPECT_EQ(SlurmEndReason(Record("FAILED", "0", "   DerivedExitCode=0:125\n"), "12", 0),
            "Slurm job 12 ran out of memory (OUT_OF_MEMORY)");
  EXPECT_EQ(SlurmEndReason(Record("FAILED", "0", "   DerivedExitCode=3:0\n"), "12", 0), "");
}

TEST(SlurmJobTest, OrdinaryEndHasNoReason) {
  EXPECT_EQ(SlurmEndReason(Record("COMPLETED"), "12", 0), "");
  EXPECT_EQ(SlurmEndReason(Record("FAILED"), "12", 0), "");
}

TEST(SlurmJobTest, CompletingJobHasNoAnswer) {
  for (const char* state : {"COMPLETING", "RUNNING", "PENDING", "SIGNALING", "", "NEWER"}) {
    EXPECT_EQ(SlurmEndReason(Record(state), "12", 0), absl::nullopt) << state;
  }
  EXPECT_EQ(SlurmEndReason("slurm_load_jobs error: Invalid job id specified\n", "12", 0),
            absl::nullopt);
  EXPECT_EQ(SlurmEndReason("", "12", 0), absl::nullopt);
  EXPECT_EQ(SlurmEndReason(Record("CANCELLED"), "1", 0), absl::nullopt) << "another job";
}

TEST(SlurmJobTest, RequeueAfterStartIsReported) {
  EXPECT_EQ(SlurmEndReason(Record("PENDING", "1"), "12", 0),
            "Slurm job 12 was queued again (preempted or requeued)");
  EXPECT_NE(SlurmEndReason(Record("RUNNING", "1"), "12", 0), absl::nullopt);
  EXPECT_EQ(SlurmEndReason(Record("RUNNING", "1"), "12", 1), absl::nullopt);
}

TEST(SlurmJobTest, FindsItsTaskOfAnArray) {
  std::string other = Record("TIMEOUT");
  other.replace(0, 8, "JobId=13");
  EXPECT_EQ(SlurmEndReason(other + Record("CANCELLED"), "12", 0),
            "Slurm job 12 was cancelled (CANCELLED)");
}

}  // namespace
}  // namespace ranklog::pipeline
