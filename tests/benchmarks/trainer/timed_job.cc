#include "tests/benchmarks/trainer/timed_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "trainer/parallel/launcher.h"

namespace ranklog::benchmarks {
namespace {

constexpr int kTokensPerStep = 8 * 128;  // of a rank: ranklog-train's defaults

trainer::HostedStore ServeStore() {
  absl::StatusOr<trainer::HostedStore> store = trainer::HostedStore::Serve();
  if (!store.ok()) Die(std::string(store.status().message()));
  return *std::move(store);
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code gone;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace

void Die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

Child::Child(const std::vector<std::string>& command,
             const std::map<std::string, std::string>& environment) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) Die("no pipe");
  // Before fork(), because a thread of LibTorch may hold the allocator's lock.
  std::vector<std::string> words{"env"};
  for (const auto& [name, value] : environment) words.push_back(name + "=" + value);
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no process outlives a killed benchmark
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

Child::~Child() {
  close(to_);
  close(from_);
  waitpid(pid_, nullptr, 0);
}

void Child::Write(const std::string& line) {
  const std::string text = line + "\n";
  if (write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    Die("process " + std::to_string(pid_) + " takes no input");
}

std::string Child::ReadLine() {
  std::string line;
  for (char c = 0; read(from_, &c, 1) == 1; line += c) {
    if (c == '\n') return line;
  }
  Die("process " + std::to_string(pid_) + " ended, after writing '" + line + "'");
}

double ProcessCpuSeconds(pid_t pid) {
  double nanoseconds = 0;
  std::error_code gone;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    double ran = 0;
    std::ifstream(task.path() / "schedstat") >> ran;
    nanoseconds += ran;
  }
  return nanoseconds / 1e9;
}

double DescendantsCpuSeconds(pid_t pid) {
  double seconds = 0;
  for (const pid_t child : ChildrenOf(pid))
    seconds += ProcessCpuSeconds(child) + DescendantsCpuSeconds(child);
  return seconds;
}

double MemoryMib(pid_t pid, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stod(line.substr(key.size() + 1)) / 1024;
  }
  Die("no " + key + " of process " + std::to_string(pid));
}

TimedJob::TimedJob(const std::vector<std::string>& command, int ranks, Ties ties,
                   std::map<std::string, std::string> environment)
    : store_(ServeStore()) {
  environment.emplace("OMP_NUM_THREADS", "1");
  environment.emplace("GLOO_SOCKET_IFNAME", "lo");
  environment.emplace("WANDB_MODE", "disabled");
  const bool together = ties == kTogether;
  for (int rank = 0; rank < ranks; ++rank) {
    const trainer::LaunchOptions launch{
        .command = {}, .ranks = together ? ranks : 1, .master_port = store_.port()};
    for (const auto& [name, value] : trainer::RankVariables(launch, together ? rank : 0))
      environment[name] = value;
    ranks_.push_back(std::make_unique<Child>(command, environment));
  }
  for (const auto& rank : ranks_) {
    if (const std::string line = rank->ReadLine(); line != "ready")
      Die(command[0] + " began with '" + line + "'");
  }
}

Turn TimedJob::Take(int steps, bool log) {
  const std::string line = std::to_string(steps) + (log ? " log" : " plain");
  for (const auto& rank : ranks_) rank->Write(line);
  Turn turn;
  for (const auto& rank : ranks_) {
    double seconds = 0, cpu_seconds = 0;
    std::istringstream(rank->ReadLine()) >> seconds >> cpu_seconds;
    turn.tokens_per_second += steps * kTokensPerStep / seconds;
    turn.seconds += seconds / static_cast<double>(ranks_.size());
    turn.cpu_seconds += cpu_seconds;
  }
  return turn;
}

}  // namespace ranklog::benchmarks
