// The prolog of deploy/slurm in a real Slurm: the job's user has a daemon that outlives the job, and
// no trouble of that daemon is the job's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSlurmRows = 50;

bool HaveSlurmAsRoot() {
  return InPath("srun") && access("/usr/sbin/slurmd", X_OK) == 0 && geteuid() == 0;
}

void WriteProgram(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  chmod(path.c_str(), 0755);
}

class SlurmTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (!started_) return;
    Slurm({"stop"});
    for (const char* node : {"n1", "n2"}) Ranklog({"stop"}, node);
  }

  // A copy of the prolog for each node, whose directories lie apart: both nodes are one machine.
  void StartSlurm(const std::string& ranklogd) {
    started_ = true;
    std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
    std::filesystem::create_directory(dir_.File("bin"));
    WriteProgram(dir_.File("bin/ranklogd"), ranklogd);
    const std::string here = dir_.path() + "/$SLURMD_NODENAME";
    WriteProgram(dir_.File("prolog.sh"),
                 absl::StrCat("#!/bin/bash\nexec unshare -m bash -c 'mkdir -p ", here,
                              "/run /run/ranklog; mount --bind ", here,
                              "/run /run/ranklog; bash <(sed \"s,PATH=,PATH=", dir_.File("bin"),
                              ":,; s,=/var/lib/ranklog,=", here, "/lib,\" ", SLURM_PROLOG, ")'\n"));
    const Finished start = Slurm(
        {"--conf", "Prolog=" + dir_.File("prolog.sh"), "--conf", "PrologFlags=Alloc", "start"});
    ASSERT_EQ(start.code, 0) << start.output;
  }
  Finished Slurm(std::vector<std::string> args) {
    args.insert(args.begin(), {SLURM_TWO_NODES, "--dir", slurm_.path()});
    return RunToEnd(args, {}, absl::Seconds(120));
  }
  // Two ranks of this user, one on each node.
  Finished Train(const std::map<std::string, std::string>& settings) {
    ChildProcess::Options options;
    options.environment = settings;
    options.environment["RANKLOG_START_DAEMON"] = "false";
    WriteProgram(dir_.File("rank.sh"), "#!/bin/sh\nRANKLOG_ADDRESS=unix:" + dir_.path() +
                                           "/$SLURMD_NODENAME/run/" + std::to_string(getuid()) +
                                           "/ranklogd.sock exec " + LOGGING_RANK + " " +
                                           std::to_string(kSlurmRows) + "\n");
    return RunToEnd({SLURM_TWO_NODES, "--dir", slurm_.path(), "exec", "srun", "-N2", "-n2",
                     dir_.File("rank.sh")},
                    options, absl::Seconds(60));
  }
  Finished Ranklog(std::vector<std::string> args, const std::string& node) {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--address", "unix:" + dir_.path() + "/" + node + "/run/" +
                                              std::to_string(getuid()) + "/ranklogd.sock"});
    return RunToEnd(args);
  }
  std::string States() { return Slurm({"exec", "sinfo", "-h", "-N", "-o", "%N %t"}).output; }

  TempDir dir_;
  TempDir slurm_;
  bool started_ = false;
};

TEST_F(SlurmTest, DaemonOfThePrologDeliversAfterTheJob) {  // S5, S36
  SKIP_WITHOUT(HaveSlurmAsRoot(), "Slurm (slurmctld, slurmd, munge), and root to run it");
  StartSlurm(absl::StrCat("#!/bin/sh\nexec ", RANKLOGD, " \"$@\"\n"));
  const int port = FakeWandb().port();  // nobody answers there, for now
  std::map<std::string, std::string> settings = WandbAt("http://127.0.0.1:" + std::to_string(port));
  settings["RANKLOG_LOG_STRATEGY"] = "all";
  const Finished job = Train(settings);
  ASSERT_EQ(job.code, 0) << job.output;
  EXPECT_THAT(Ranklog({"status"}, "n1").output, HasSubstr("slurm"));
  FakeWandb wandb(port);
  EXPECT_TRUE(wandb.WaitFor(
      [](const std::map<std::string, FakeWandb::Run>& runs) {
        size_t complete = 0;
        for (const auto& [id, run] : runs)
          complete += run.complete && run.history.size() == kSlurmRows;
        return complete == 2;  // by `all`
      },
      absl::Seconds(60)));
  EXPECT_THAT(States(), HasSubstr("n1 idle\nn2 idle"));
}

class SlurmBadDaemonTest : public SlurmTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SlurmBadDaemonTest, DoesNotDrainTheNode) {
  SKIP_WITHOUT(HaveSlurmAsRoot(), "Slurm (slurmctld, slurmd, munge), and root to run it");
  StartSlurm(GetParam());
  const absl::Time before = absl::Now();
  const Finished job = Slurm({"exec", "srun", "-N2", "-n2", "true"});
  EXPECT_EQ(job.code, 0) << job.output;
  EXPECT_LT(absl::Now() - before, absl::Seconds(20));
  EXPECT_TRUE(WaitFor([&] { return States() == "n1 idle\nn2 idle\n"; })) << States();
}

INSTANTIATE_TEST_SUITE_P(Daemons, SlurmBadDaemonTest,
                         ::testing::Values("#!/bin/sh\nexit 1\n", "#!/bin/sh\nexec sleep 100\n",
                                           "no program"));

}  // namespace
}  // namespace ranklog::testing
