// The prolog and the epilog of deploy/slurm alone, on a prepared node: users left files where
// root's scripts work, programs hang, settings are wrong. Each test has its own /run, /etc/ranklog
// and /var/lib.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// A node for the script on stdin, whose user is 65534. The script has these commands: `conf
// LINE...` writes slurm.conf. `user CMD...` runs a command as that user. `prolog` and `epilog` run
// the scripts of a job, and print their exit codes. `log` prints their messages.
constexpr char kScriptsNode[] = R"sh(
set -eu
mount -t tmpfs -o mode=755 none /run
for dir in /etc /var/lib; do
  mkdir -p "/run/.layers$dir/upper" "/run/.layers$dir/work"
  mount -t overlay -o "lowerdir=$dir,upperdir=/run/.layers$dir/upper,workdir=/run/.layers$dir/work" overlay "$dir"
done
rm -rf /var/lib/ranklog
mkdir -p /etc/ranklog /run/bin
export SLURM_JOB_UID=65534 SLURM_JOB_GID=65534 SLURM_JOB_ID=7
conf() { printf '%s\n' "PATH=/run/bin:$PROGRAMS:\$PATH" "$@" >/etc/ranklog/slurm.conf; }
user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
prolog() { bash "$SCRIPTS/prolog.sh" && echo "prolog 0" || echo "prolog $?"; }
epilog() { bash "$SCRIPTS/epilog.sh" && echo "epilog 0" || echo "epilog $?"; }
log() { cat /run/ranklog/slurm.log; }
hangs() { printf '#!/bin/sh\nexec sleep 100\n' >"/run/bin/$1"; chmod 755 "/run/bin/$1"; }
answers() { user ranklog status --json --state-dir "$1" >/dev/null && test -S /run/ranklog/65534/ranklogd.sock && echo "a daemon has $1"; }
export PATH="$PROGRAMS:$PATH"
conf
)sh";

class SlurmScriptsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(geteuid() == 0, "root, as whom Slurm runs the scripts");
    fs::permissions(dir_.path(), fs::perms(0755));
    for (const char* program : {RANKLOGD, RANKLOG_CLI}) {
      fs::copy(program, fs::path(dir_.path()) / fs::path(program).filename());
    }
  }
  // Runs the script, and returns its output. The node's processes end with it.
  std::string OnNode(const std::string& script) {
    ChildProcess::Options options;
    options.environment = {{"PROGRAMS", dir_.path()}, {"SCRIPTS", SLURM_SCRIPTS}};
    const Finished finished =
        RunToEnd({"unshare", "--mount", "--propagation", "private", "--pid", "--fork",
                  "--kill-child", "--mount-proc", "bash", "-c", kScriptsNode + script},
                 options);
    EXPECT_EQ(finished.code, 0) << finished.output;
    return finished.output;
  }

  const TempDir dir_{"/var/tmp"};  // a user can enter it
};

// For example, the state directory is on a scratch disk of the node, where a user creates it first.
TEST_F(SlurmScriptsTest, PrologDoesNotFollowUserSymlinks) {
  const std::string output = OnNode(R"sh(
mkdir -m 1777 /run/scratch
mkdir -m 0700 /run/secret
conf state=/run/scratch/ranklog
user ln -s /run/secret /run/scratch/ranklog
prolog
rm /run/scratch/ranklog
user mkdir /run/scratch/ranklog
user ln -s /run/secret /run/scratch/ranklog/65534
prolog
stat -c 'secret: %a of %u' /run/secret
test ! -e /run/ranklog/65534
log
)sh");
  EXPECT_THAT(output, AllOf(HasSubstr("prolog 0\nprolog 0\n"), HasSubstr("secret: 700 of 0\n")));
  EXPECT_THAT(output,
              HasSubstr("job 7 of user 65534: /run/scratch must be a directory of root, not "
                        "a link, that nobody else may write: it is drwxrwxrwt, of user 0\n"));
}

TEST_F(SlurmScriptsTest, PrologRequiresRootOwnedDirectories) {
  const std::string output = OnNode(R"sh(
mkdir /run/users /run/roots /run/secret
chown 65534 /run/users
ln -s /run/secret /run/link
ln -s /run/secret /run/roots/65534
for state in /run/users/ranklog /run/link /run/link/ranklog /run/users/../users/ /run/roots; do
  conf "state=$state"
  prolog
done
mkdir -m 0777 /run/tmp
rm -r /run/ranklog
mv /run/tmp /run/ranklog
user ln -s /run/secret/log /run/ranklog/slurm.log
prolog
conf drain=5
epilog
find /run/secret /run/users
)sh");
  EXPECT_THAT(output, EndsWith("prolog 0\nepilog 0\n/run/secret\n/run/users\n"));
}

// Also below missing directories. Ranks and commands find its store without being told.
TEST_F(SlurmScriptsTest, PrologCreatesConfiguredStateDirectory) {
  const std::string output = OnNode(R"sh(
conf state=/run/local/disk/ranklog/
prolog
stat -c '%n %a %u' /run/local/disk/ranklog /run/local/disk/ranklog/65534
readlink /var/lib/ranklog/65534
answers /run/local/disk/ranklog/65534
env -i PATH="$PATH" setpriv --reuid=65534 --regid=65534 --clear-groups ranklog status
user ranklog stop >/dev/null
rm /var/lib/ranklog/65534
mkdir /var/lib/ranklog/65534
prolog
answers /run/local/disk/ranklog/65534
log
)sh");
  EXPECT_THAT(output, HasSubstr("prolog 0\n/run/local/disk/ranklog 755 0\n"
                                "/run/local/disk/ranklog/65534 700 65534\n"
                                "/run/local/disk/ranklog/65534\n"
                                "a daemon has /run/local/disk/ranklog/65534\n"));
  EXPECT_THAT(output, HasSubstr("started by slurm"));
  EXPECT_THAT(output, HasSubstr("job 7 of user 65534: remove /var/lib/ranklog/65534, or move it to "
                                "/run/local/disk/ranklog/65534"));
}

TEST_F(SlurmScriptsTest, PrologTimesOutHungPrograms) {
  const absl::Time start = SteadyNow();
  const std::string output = OnNode(R"sh(
hangs getent
hangs systemctl
mkdir -p /run/systemd/system
prolog
answers /var/lib/ranklog/65534
)sh");
  EXPECT_THAT(output, EndsWith("prolog 0\na daemon has /var/lib/ranklog/65534\n"));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(20));
}

TEST_F(SlurmScriptsTest, EpilogWaitsForWholeSecondsOnly) {
  const absl::Time start = SteadyNow();
  const std::string output = OnNode(R"sh(
hangs ranklog
conf drain=1
epilog
mkdir /run/ranklog
for drain in 1 0 00 0s 0.0 -1 inf; do
  conf "drain=$drain"
  epilog
done
log
)sh");
  EXPECT_THAT(output, AllOf(HasSubstr("drain=0s is not a number"), HasSubstr("drain=0.0 is not"),
                            HasSubstr("drain=-1 is not"), HasSubstr("drain=inf is not"),
                            Not(HasSubstr("drain=1 ")), Not(HasSubstr("drain=00 "))));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(20));
}

}  // namespace
}  // namespace ranklog::testing
