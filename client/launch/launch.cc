#include "client/launch/launch.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/base/process.h"
#include "client/base/text/short_name.h"
#include "client/settings/environment.h"

namespace ranklog::internal {
namespace {

constexpr int kMostAncestors = 32;  // more than any nesting of wrappers
// Of an environment: the kernel's limit is a quarter of the stack's.
constexpr size_t kMostBytes = 4 << 20;

// Reads as much as possible; empty if the process has ended or belongs to another user.
std::string ReadAll(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  for (ssize_t got; text.size() < kMostBytes && (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string began;  // in ticks since the boot
};

Process FindProcess(pid_t pid) {
  Process process;
  process.pid = pid;
  const std::string stat = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  // The command's name may contain any character. After its last parenthesis come the fields from
  // the third on.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return process;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
    if (i == 4) process.parent = static_cast<pid_t>(ParseInteger(field).value_or(0));
    if (i == 22) process.began = field;
  }
  return process;
}

// False if /proc belongs to another pid namespace, or is absent. Then it has no data about our
// processes.
bool ProcIsOurs() {
  char pid[32];
  const ssize_t size = readlink("/proc/self", pid, sizeof pid);
  return size > 0 && ParseInteger({pid, static_cast<size_t>(size)}) == getpid();
}

// A process id is unique only in its pid namespace.
std::string NameOf(const Process& process) {
  char pid_namespace[64];
  const ssize_t size = readlink("/proc/self/ns/pid", pid_namespace, sizeof pid_namespace);
  return absl::StrCat(process.pid, "/", process.began, "/",
                      size > 0 ? std::string(pid_namespace, static_cast<size_t>(size)) : "", "/",
                      BootId());
}

// The name of this process and of its forked children.
std::string OwnName() {
  if (ProcIsOurs()) return NameOf(FindProcess(getpid()));
  static const auto* const name = new std::string(RandomName());
  return *name;
}

std::optional<std::string> Assignment(const char* name) {
  const std::optional<std::string> value = Variable(name);
  if (!value) return std::nullopt;
  return absl::StrCat(name, "=", *value);
}

// A variable that the launcher set for this rank, but does not have itself.
std::string RankVariable() {
  // torchrun's agent may have a RANK of its own: that of the node.
  if (const auto restarts = Assignment("TORCHELASTIC_RESTART_COUNT")) return *restarts;
  for (const char* name : {"RANKLOG_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const auto rank = Assignment(name)) return *rank;
  }
  return "";
}

bool HasVariable(pid_t pid, const std::string& assignment) {
  const std::string environment = '\0' + ReadAll(absl::StrCat("/proc/", pid, "/environ"));
  return environment.find('\0' + assignment + '\0') != std::string::npos;
}

uint32_t Count(const char* name) {
  const auto text = Variable(name);
  return text ? static_cast<uint32_t>(ParseInteger(*text).value_or(0)) : 0;
}

// The number of earlier Inits of this process under that id.
uint64_t NextInit(const std::string& run_id) {
  MutexLock lock(StateMutex());
  static auto* const inits = new std::map<std::string, uint64_t>;
  return (*inits)[run_id]++;
}

}  // namespace

std::string BootId() {
  std::string id = ReadAll("/proc/sys/kernel/random/boot_id");
  absl::StripTrailingAsciiWhitespace(&id);
  return id;
}

Starter FindLauncher() {
  if (!ProcIsOurs()) return {OwnName(), false};
  const std::string variable = RankVariable();
  Process process = FindProcess(getpid());
  for (int i = 0; i < kMostAncestors && process.parent > 0; ++i) {
    process = FindProcess(process.parent);
    if (variable.empty() || !HasVariable(process.pid, variable)) return {NameOf(process), true};
  }
  // The first process of a container: the rank itself, or its wrapper.
  return {NameOf(process), process.parent > 0};
}

v1::Launch MakeLaunch(const Settings& resolved, bool id_given) {
  const auto job = Variable("SLURM_JOB_ID");
  const auto step = Variable("SLURM_STEP_ID");
  const bool by_torchrun = Variable("TORCHELASTIC_RUN_ID").has_value();
  const bool has_rank = !RankVariable().empty();
  const uint64_t inits = NextInit(resolved.run_id);
  const std::string own = OwnName();

  v1::Launch launch;
  launch.set_id_given(id_given);
  launch.set_process(absl::StrCat(own, "@", inits));
  if (job) {
    launch.set_batch_job(absl::StrCat("slurm-", *job, step ? absl::StrCat(".", *step) : ""));
    launch.set_requeue(Count("SLURM_RESTART_COUNT"));
  }
  if (by_torchrun) {
    launch.set_restarts_ranks(true);
    launch.set_restart(Count("TORCHELASTIC_RESTART_COUNT"));
  }
  std::string id = own;
  if (resolved.world_size > 1 || by_torchrun) {
    const Starter launcher = FindLauncher();
    const auto job_namespace = Variable("PMIX_NAMESPACE");
    if (job && step && (!has_rank || !launcher.seen)) {
      id = absl::StrCat("slurm-", *job, ".", *step, "/", launch.requeue());
    } else if (job_namespace && !launcher.seen) {
      id = absl::StrCat("pmix-", *job_namespace);
    } else {
      id = launcher.id;
      launch.set_unseen(!launcher.seen);
    }
  }
  // If ranks have only RANK and WORLD_SIZE, somebody may have started each one by hand.
  launch.set_whole_node(!launch.unseen() &&
                        (resolved.world_size == 1 || by_torchrun || job || !Variable("RANK")));
  launch.set_id(inits == 0 ? id : absl::StrCat(id, "#", inits));
  return launch;
}

}  // namespace ranklog::internal
