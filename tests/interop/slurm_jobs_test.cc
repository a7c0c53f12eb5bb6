// Tests jobs under a real Slurm: the job scripts of deploy/slurm, jobs of several users on one
// node, and jobs in containers like Enroot's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/node.h"
#include "tests/interop/slurm_cluster.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uid_t kNobody = 65534;
constexpr uid_t kGames = 5;  // users that every Debian has

class SlurmJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(SlurmCluster::Installed(), "Slurm (slurmctld, slurmd, munge), and root to run it");
    SKIP_WITHOUT(SlurmCluster::HasCgroups(), "the cgroups freezer and memory, of version 1");
  }
  SlurmCluster cluster_;
};

#ifdef HAVE_TRAINER
class SlurmTrainTest : public SlurmJobsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SlurmTrainTest, JobScriptTrains) {  // S5
  cluster_.AddProgram(RANKLOG_TRAIN);
  cluster_.Start({});
  FakeWandb wandb;
  std::map<std::string, std::string> settings = WandbAt(wandb.url());
  settings.merge(std::map<std::string, std::string>{{"RANKLOG_START_DAEMON", "false"},
                                                    {"OMP_NUM_THREADS", "1"},
                                                    {"SAVE_DIR", cluster_.File("checkpoints")}});
  const std::string job =
      cluster_.Submit({absl::StrCat(SLURM_SCRIPTS, "/", GetParam()), "--model", "tiny", "--steps",
                       "3", "--log-every", "1", "--batch-size", "2", "--seq-len", "32"},
                      settings);
  EXPECT_TRUE(wandb.WaitFor(
      [&](const auto& runs) { return !runs.empty() && runs.begin()->second.complete; },
      absl::Seconds(60)))
      << FileContent(cluster_.File(job + ".out"));
  const auto runs = wandb.runs();
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_GE(runs.begin()->second.history.size(), 3u);
  EXPECT_TRUE(WaitFor([&] { return cluster_.JobField(job, "JobState") == "COMPLETED"; }));
}

// Slurm's warning before the time limit, as --signal=USR1@120 sends it. The script requeues the
// job.
TEST_P(SlurmTrainTest, RequeuedJobResumesFromCheckpoint) {
  constexpr int kSteps = 300;
  cluster_.AddProgram(RANKLOG_TRAIN);
  cluster_.Start({});
  const std::string job = cluster_.Submit(
      {GetParam() == std::string("nodes.sbatch") ? "--nodelist=n1,n2" : "--nodelist=n1",
       absl::StrCat(SLURM_SCRIPTS, "/", GetParam()), "--steps", std::to_string(kSteps),
       "--batch-size", "1", "--seq-len", "16", "--val-every", "0"},
      {{"RANKLOG_START_DAEMON", "false"},
       {"RANKLOG_DESTINATIONS", "local"},
       {"OMP_NUM_THREADS", "1"},
       {"SAVE_DIR", cluster_.File("checkpoints")}});
  const std::string output = cluster_.File(job + ".out");
  const auto last_step = [&] {
    const json runs = cluster_.RunsOn("n1");
    return runs.empty() ? -1 : runs[0].value("last_step", -1);
  };
  ASSERT_TRUE(WaitFor([&] { return last_step() >= 5; })) << FileContent(output);
  cluster_.Run({"scancel", "--signal=USR1", job});
  ASSERT_TRUE(WaitFor([&] { return cluster_.JobField(job, "Restarts") == "1"; }))
      << FileContent(output);
  EXPECT_LT(last_step(), kSteps) << "the signal came after the end";
  ASSERT_TRUE(cluster_.StartAgain(job));
  ASSERT_TRUE(WaitFor([&] { return cluster_.JobField(job, "JobState") == "COMPLETED"; },
                      absl::Seconds(100)))
      << FileContent(output);
  EXPECT_THAT(FileContent(output), HasSubstr("resuming after step"));

  const json runs = cluster_.RunsOn("n1");
  ASSERT_THAT(runs, SizeIs(1)) << runs;
  EXPECT_EQ(runs[0]["state"], "finished") << runs;
  const Finished exported =
      cluster_.On("n1", {cluster_.File("bin/ranklog"), "export", "latest", "--format", "jsonl"});
  std::vector<int> steps;
  for (const absl::string_view line :
       absl::StrSplit(exported.output, '\n', absl::SkipWhitespace())) {
    steps.push_back(json::parse(line)["_step"]);
  }
  std::vector<int> all(kSteps);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(steps, all);
}

INSTANTIATE_TEST_SUITE_P(Scripts, SlurmTrainTest,
                         ::testing::Values("one-node.sbatch", "nodes.sbatch"));
#endif

TEST_F(SlurmJobsTest, ArrayTasksShareAGroup) {
  cluster_.AddProgram(LOGGING_RANK);
  cluster_.Start({});
  const std::string array =
      cluster_.Submit({"--array=1-2", "-N1", "-n1", "-w", "n1", "--wrap", "srun logging_rank 5"},
                      {{"RANKLOG_START_DAEMON", "false"}, {"RANKLOG_DESTINATIONS", "local"}});
  json runs;
  ASSERT_TRUE(WaitFor([&] {
    runs = cluster_.RunsOn("n1");
    return runs.size() == 2;
  })) << FileContent(cluster_.File(array + ".out"));
  for (const json& run : runs) EXPECT_EQ(run["group"], "slurm-" + array);
  EXPECT_NE(runs[0]["run_id"], runs[1]["run_id"]);
}

TEST_F(SlurmJobsTest, UsersOnNodeAreIsolated) {
  cluster_.AddProgram(LOGGING_RANK);
  cluster_.Start({});
  for (const uid_t user : {kNobody, kGames}) {
    const Finished job =
        cluster_.Run({"srun", "-N1", "-w", "n1", "logging_rank", "20"},
                     {{"RANKLOG_START_DAEMON", "false"}, {"RANKLOG_DESTINATIONS", "local"}}, user);
    ASSERT_EQ(job.code, 0) << job.output;
  }
  for (const auto& [user, other] : {std::pair(kNobody, kGames), std::pair(kGames, kNobody)}) {
    const json runs = cluster_.RunsOn("n1", user);
    ASSERT_THAT(runs, SizeIs(1)) << runs;
    EXPECT_EQ(runs[0]["rows"], 20);
    const std::string ranklog = cluster_.File("bin/ranklog");
    const std::string id = std::to_string(other);
    for (const std::vector<std::string>& attempt :
         {std::vector<std::string>{ranklog, "status", "--address",
                                   "unix:/run/ranklog/" + id + "/ranklogd.sock"},
          {ranklog, "runs", "--state-dir", "/var/lib/ranklog/" + id},
          {"ls", "/run/ranklog/" + id},
          {"ls", "/var/lib/ranklog/" + id}}) {
      EXPECT_NE(cluster_.On("n1", attempt, user).code, 0) << attempt[0] << " " << attempt[1];
    }
  }
}

// A user, mount and pid namespace with its own /run and /dev/shm. The files of deploy/slurm/enroot
// add the socket to it. The rank is killed, so its last rows are in its spool.
class SlurmContainerTest : public SlurmJobsTest,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(SlurmContainerTest, HasItsDaemonOutside) {
  const Finished can = RunToEnd({"setpriv", "--reuid", "65534", "--regid", "65534",
                                 "--clear-groups", "unshare", "--user", "--map-root-user", "true"});
  SKIP_WITHOUT(can.code == 0, "user namespaces for users of this kernel");
  cluster_.AddProgram(ENDING_RANK);
  // The checkout may be in a home that other users cannot read.
  for (const char* name : {"fstab", "env"}) {
    cluster_.AddProgram(absl::StrCat(SLURM_SCRIPTS, "/enroot/ranklog.", name));
  }
  cluster_.AddScript(
      "container",
      absl::StrCat(R"(#!/bin/sh
set -e
if [ "$1" != inside ]; then
  exec unshare --user )",
                   GetParam(), R"( --mount --pid --fork --kill-child --mount-proc "$0" inside "$@"
fi
shift
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
mkdir /tmp/host
mount --rbind /run /tmp/host
mount -t tmpfs none /run
while read -r from to type options rest; do
  case "$from" in /run/*) mkdir -p "$to"; mount --rbind "/tmp/host/${from#/run/}" "$to" ;; esac
done <)",
                   cluster_.File("bin/ranklog.fstab"), R"(
umount -l /tmp/host
while IFS= read -r line; do
  case "$line" in RANKLOG_*) eval "export $line" ;; esac
done <)",
                   cluster_.File("bin/ranklog.env"), R"(
"$@" || exit $?  # not as process 1, which no signal from inside kills
)"));
  cluster_.Start({});
  const Finished job =
      cluster_.Run({"srun", "-N1", "-w", "n1", "container", "ending_rank", "kill"},
                   {{"RANKLOG_START_DAEMON", "false"}, {"RANKLOG_DESTINATIONS", "local"}}, kNobody);
  EXPECT_TRUE(WaitFor([&] {
    const json runs = cluster_.RunsOn("n1", kNobody);
    return runs.size() == 1 && runs[0]["state"] == "crashed";
  })) << job.output;
  EXPECT_EQ(cluster_.RunsOn("n1", kNobody)[0]["rows"], 200) << job.output;
}

INSTANTIATE_TEST_SUITE_P(Users, SlurmContainerTest,
                         ::testing::Values("--map-root-user", "--map-current-user --keep-caps"));

}  // namespace
}  // namespace ranklog::testing
