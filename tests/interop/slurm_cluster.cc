#include "tests/interop/slurm_cluster.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/absent.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kFreezer[] = "/sys/fs/cgroup/freezer";
constexpr char kMemory[] = "/sys/fs/cgroup/memory";

// Runs a command as a node: NODE COMMAND...
constexpr char kNodeScript[] = R"sh(#!/bin/bash
set -e
# job_container/tmpfs binds the job's mount namespace to a file, which is refused where that has a smaller number than
# ours. Linux 6.18 numbers them for each CPU.
[ -z "$ONE_CPU" ] || taskset -p -c "$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)" $$
[ "$1" = inside ] || exec unshare --mount --propagation private "$0" inside "$@"
cluster=${0%/*}; node=$cluster/$2; shift 2
mkdir -p "$node"
mount -t tmpfs none "$node"
for dir in etc var/lib; do
  mkdir -p "$node/$dir/upper" "$node/$dir/work"
  mount -t overlay -o "lowerdir=/$dir,upperdir=$node/$dir/upper,workdir=$node/$dir/work" overlay "/$dir"
done
mkdir -p /etc/ranklog /var/lib/ranklog
# A daemon, rings and stores of the machine's users are not on the node.
for dir in /run /etc/ranklog /var/lib/ranklog; do mount -t tmpfs -o mode=755 none "$dir"; done
mount -t tmpfs -o mode=1777 none /dev/shm
echo "PATH=$cluster/bin:\$PATH" >/etc/ranklog/slurm.conf
echo "127.0.0.1 n1 n2" >>/etc/hosts
exec "$@"
)sh";

std::string MountsOf(const std::string& process) {
  std::error_code error;
  return fs::read_symlink("/proc/" + process + "/ns/mnt", error);
}

}  // namespace

bool SlurmCluster::Installed() {
  return InPath("srun") && access("/usr/sbin/slurmd", X_OK) == 0 && geteuid() == 0;
}

bool SlurmCluster::HasCgroups() {
  for (const char* hierarchy : {kFreezer, kMemory}) {
    const std::string probe = absl::StrCat(hierarchy, "/ranklog-", getpid());
    if (mkdir(probe.c_str(), 0755) != 0) return false;
    rmdir(probe.c_str());
  }
  return true;
}

SlurmCluster::SlurmCluster() {
  fs::permissions(dir_.path(), fs::perms(0755));
  fs::create_directory(dir_.File("bin"));
  AddScript("../node.sh", kNodeScript);
  for (const auto& library : fs::directory_iterator(LIBRARIES)) {
    const std::string name = library.path().filename();
    if (!absl::StartsWith(name, "libranklog.so")) continue;
    fs::copy(library, dir_.File("bin/" + name), fs::copy_options::copy_symlinks);
  }
  // Nodes of two clusters would share the same cgroups.
  lock_ = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  flock(lock_, LOCK_EX);
}

SlurmCluster::~SlurmCluster() {
  if (::testing::Test::HasFailure()) std::printf("%s\n", Logs().c_str());
  if (started_) RunToEnd(Nodes({"stop"}));
  mounts_.erase(MountsOf("self"));
  for (const auto& process : fs::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(process.path().filename().string(), &pid)) continue;
    if (mounts_.count(MountsOf(process.path().filename())) != 0) kill(pid, SIGKILL);
  }
  for (const int held : held_mounts_) close(held);
  close(lock_);
}

std::vector<std::string> SlurmCluster::Nodes(std::vector<std::string> args) const {
  args.insert(args.begin(), {SLURM_TWO_NODES, "--dir", dir_.path()});
  return args;
}

void SlurmCluster::Start(const Options& options) {
  if (options.ranklogd.empty()) {
    AddProgram(RANKLOGD);
  } else if (options.ranklogd != "-") {
    AddScript("ranklogd", options.ranklogd);
  }
  AddProgram(RANKLOG_CLI);
  std::vector<std::string> args = {"--node-wrapper", dir_.File("node.sh")};
  const auto add = [&args](const std::string& flag, std::vector<std::string> values) {
    for (std::string& value : values) args.insert(args.end(), {flag, std::move(value)});
  };
  add("--conf",
      {absl::StrCat("Prolog=", SLURM_SCRIPTS, "/prolog.sh"),
       absl::StrCat("Epilog=", SLURM_SCRIPTS, "/epilog.sh"), "PrologFlags=Contain", "KillWait=2"});
  add("--conf", options.conf);
  if (HasCgroups()) {
    add("--proctrack", {"cgroup"});
    add("--conf", {"TaskPlugin=task/cgroup"});
    add("--cgroup",
        {"CgroupPlugin=cgroup/v1", "CgroupMountpoint=/sys/fs/cgroup", "ConstrainRAMSpace=yes"});
  }
  if (options.private_tmp) {
    add("--conf", {"JobContainerType=job_container/tmpfs"});
    add("--job-container",
        {"AutoBasePath=true", absl::StrCat("NodeName=n1 BasePath=", dir_.path(), "/container.n1"),
         absl::StrCat("NodeName=n2 BasePath=", dir_.path(), "/container.n2")});
  }
  args.push_back("start");
  started_ = true;
  ChildProcess::Options child;
  child.environment = options.environment;
  if (options.private_tmp) child.environment["ONE_CPU"] = "1";
  const Finished start = RunToEnd(Nodes(std::move(args)), child);
  ASSERT_EQ(start.code, 0) << start.output;
  for (const char* node : {"n1", "n2"}) {
    const std::string file = FileContent(dir_.File(absl::StrCat("slurmd.", node, ".pid")));
    const std::string pid(absl::StripAsciiWhitespace(file));
    const int held = open(absl::StrCat("/proc/", pid, "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(held, 0) << node << " has no slurmd";
    held_mounts_.push_back(held);
    mounts_.insert(MountsOf(pid));
  }
}

Finished SlurmCluster::Run(std::vector<std::string> args,
                           std::map<std::string, std::string> environment, uid_t uid) {
  ChildProcess::Options options;
  options.environment = std::move(environment);
  options.environment["PATH"] = absl::StrCat(dir_.File("bin"), ":", getenv("PATH"));
  options.environment["SLURM_CONF"] = dir_.File("slurm.conf");
  options.environment["LD_LIBRARY_PATH"] = dir_.File("bin");
  const std::string id = std::to_string(uid);
  args.insert(args.begin(), {"env", "-C", "/"});
  if (uid != 0) {
    args.insert(args.begin(), {"setpriv", "--reuid", id, "--regid", id, "--clear-groups"});
  }
  return RunToEnd(args, options);
}

std::string SlurmCluster::Submit(std::vector<std::string> args,
                                 std::map<std::string, std::string> environment) {
  args.insert(args.begin(), {"sbatch", "--parsable", "--output", dir_.File("%j.out")});
  const Finished submitted = Run(std::move(args), std::move(environment));
  EXPECT_EQ(submitted.code, 0) << submitted.output;
  return std::string(absl::StripAsciiWhitespace(submitted.output));
}

std::string SlurmCluster::JobField(const std::string& job, const std::string& field) {
  const std::string record = Run({"scontrol", "show", "job", job}).output;
  for (absl::string_view part : absl::StrSplit(record, absl::ByAnyChar(" \n"))) {
    if (absl::ConsumePrefix(&part, field + "=")) return std::string(part);
  }
  return "";
}

bool SlurmCluster::StartAgain(const std::string& job) {
  // slurmstepd kills whatever is in the cgroup of its job, which is also that of the job's next
  // start.
  const auto is_left = [&] {
    std::error_code error;
    for (fs::recursive_directory_iterator entry(kFreezer, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().filename() == "job_" + job) return true;
    }
    return static_cast<bool>(error);  // a cgroup was removed meanwhile
  };
  if (!WaitFor([&] { return JobField(job, "JobState") == "PENDING" && !is_left(); })) return false;
  // slurmd refuses a credential of the second in which it revoked the former one.
  const absl::Time stopped = absl::Now();
  return WaitFor([&] { return absl::ToUnixSeconds(absl::Now()) > absl::ToUnixSeconds(stopped); }) &&
         WaitFor([&] {
           Run({"scontrol", "update", "JobId=" + job, "StartTime=now"});
           return JobField(job, "JobState") != "PENDING";
         });
}

std::string SlurmCluster::NodeStates() {
  return Run({"sinfo", "-h", "-N", "-p", "test", "-o", "%N %t"}).output;
}

Finished SlurmCluster::On(const std::string& node, std::vector<std::string> args, uid_t uid) {
  const std::string pid(
      absl::StripAsciiWhitespace(FileContent(dir_.File(absl::StrCat("slurmd.", node, ".pid")))));
  args.insert(args.begin(), {"nsenter", "--mount", "--target", pid, "--wd=/"});
  const std::string id = std::to_string(uid);
  if (uid != 0) {
    args.insert(args.begin() + 5, {"setpriv", "--reuid", id, "--regid", id, "--clear-groups"});
  }
  return RunToEnd(args);
}

nlohmann::json SlurmCluster::RunsOn(const std::string& node, uid_t uid) {
  const Finished runs = On(node, {dir_.File("bin/ranklog"), "runs", "--json"}, uid);
  if (runs.code != 0) return nlohmann::json::array();  // there is no store yet
  return nlohmann::json::parse(runs.output);
}

void SlurmCluster::AddProgram(const std::string& path) {
  const fs::path bin = dir_.File("bin");
  fs::copy_file(path, bin / fs::path(path).filename(), fs::copy_options::overwrite_existing);
}

void SlurmCluster::AddScript(const std::string& name, const std::string& text) {
  const std::string path = dir_.File("bin/" + name);
  std::ofstream(path) << text;
  chmod(path.c_str(), 0755);
}

std::string SlurmCluster::Logs() const {
  std::string text;
  for (const char* name : {"slurmctld", "slurmd.n1", "slurmd.n2"}) {
    absl::StrAppend(&text, "--- ", name, "\n", FileContent(dir_.File(absl::StrCat(name, ".log"))));
  }
  return text;
}

}  // namespace ranklog::testing
