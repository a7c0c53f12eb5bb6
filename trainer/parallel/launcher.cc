#include "trainer/parallel/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "trainer/base/stop_signal.h"
#include "trainer/base/threads.h"

namespace ranklog::trainer {
namespace {

constexpr std::array<int, 3> kForwardedSignals = {SIGINT, SIGTERM, SIGUSR1};

int signal_pipe = -1;  // written by the handler; set while a SignalPipe exists

void OnSignal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(signal_pipe, &byte, 1);
  errno = saved;
}

bool IsIgnored(int number) {
  struct sigaction action = {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Turns the signals in kForwardedSignals into bytes on a pipe while it exists, and ignores them
// afterwards: the ranks have determined the exit code by then. Not a mask and a signalfd: a
// library's thread without the mask would get the signal, which would end the process.
class SignalPipe {
 public:
  SignalPipe() {
    if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) return;
    signal_pipe = ends_[1];
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    action.sa_flags = SA_RESTART;
    // A shell ignores SIGINT in its background jobs, so that Ctrl-C does not end them.
    for (const int number : kForwardedSignals) {
      if (number != SIGINT || !IsIgnored(number)) sigaction(number, &action, nullptr);
    }
  }
  ~SignalPipe() {
    if (ends_[0] < 0) return;
    for (const int number : kForwardedSignals) signal(number, SIG_IGN);
    close(ends_[0]);
    close(ends_[1]);
  }
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int fd() const { return ends_[0]; }
  // The next received signal; 0 if none.
  int Next() {
    unsigned char byte = 0;
    return read(ends_[0], &byte, 1) == 1 ? byte : 0;
  }

 private:
  int ends_[2] = {-1, -1};
};

// Pointers to the texts, as exec requires.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentOf(const LaunchOptions& options, int rank) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : RankVariables(options, rank)) variables[name] = value;
  // A rank per core: more threads only compete for the cores.
  std::string& threads = variables["OMP_NUM_THREADS"];
  if (!IsThreadCount(threads.c_str())) threads = "1";
  variables.emplace("GLOO_SOCKET_IFNAME",
                    "lo");  // all ranks are on this host; its name may not resolve
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  return environment;
}

// How a rank failed, for messages; empty if it ended well.
std::string Failure(int status) {
  if (WIFSIGNALED(status))
    return absl::StrCat("was killed by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
  if (WEXITSTATUS(status) != 0) return absl::StrCat("exited with code ", WEXITSTATUS(status));
  return "";
}

// The running ranks. Its destructor ends all of them.
class Ranks {
 public:
  explicit Ranks(const LaunchOptions& options) : options_(options) {}
  ~Ranks() {
    SignalAll(SIGKILL);
    while (!running_.empty()) Reap(running_.begin()->first, /*wait=*/true);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  absl::Status Start(int rank) {
    const std::vector<std::string> environment = EnvironmentOf(options_, rank);
    const std::vector<char*> argv = Pointers(options_.command), envp = Pointers(environment);
    const pid_t parent = getpid();
    // Until the child has removed the handler, it would write its signals to the parent's pipe.
    sigset_t held, before;
    sigemptyset(&held);
    for (const int number : kForwardedSignals) sigaddset(&held, number);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    const pid_t pid = fork();
    if (pid == 0) {  // only calls that are safe after fork() in a process with threads
      for (const int number : kForwardedSignals) {
        if (!IsIgnored(number)) signal(number, SIG_DFL);
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) execvpe(argv[0], argv.data(), envp.data());
      _exit(127);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    // By number: the header of Debian 12's glibc declares it as a C++ function.
    const int pidfd = pid < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0) {
      const std::string reason = std::strerror(errno);
      if (pid > 0) kill(pid, SIGKILL), waitpid(pid, nullptr, 0);
      return absl::InternalError(absl::StrCat("cannot start rank ", rank, ": ", reason));
    }
    running_[rank] = {pid, pidfd};
    return absl::OkStatus();
  }

  // Waits until a rank has ended, a signal has arrived, or the grace is over. After the grace,
  // kills the ranks.
  void Wait(SignalPipe& signals) {
    std::vector<pollfd> fds{{signals.fd(), POLLIN, 0}};
    std::vector<int> ranks;
    for (const auto& [rank, child] : running_) {
      fds.push_back({child.pidfd, POLLIN, 0});
      ranks.push_back(rank);
    }
    int timeout_ms = -1;
    if (kill_at_ != absl::InfiniteFuture()) {
      timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(
                       std::max(kill_at_ - absl::Now(), absl::ZeroDuration()))) +
                   1;
    }
    if (poll(fds.data(), fds.size(), timeout_ms) < 0 && errno != EINTR) SignalAll(SIGKILL);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (fds[i + 1].revents != 0) Reap(ranks[i], /*wait=*/false);
    }
    if (absl::Now() >= kill_at_) SignalAll(SIGKILL);
  }

  void SignalAll(int signal) {
    for (const auto& [rank, child] : running_) kill(child.pid, signal);
  }
  // Sends `signal` to all ranks. Wait() kills them after the grace.
  void End(int signal) {
    SignalAll(signal);
    kill_at_ = std::min(kill_at_, absl::Now() + options_.grace);
  }

  bool empty() const { return running_.empty(); }
  // The failure that caused the others, else the first one; empty if there was none.
  const std::string& failure() const { return failure_; }
  // Whether that failure was a signal.
  bool killed() const { return killed_; }
  // Whether a rank stopped as requested.
  bool stopped() const { return stopped_; }

 private:
  struct Child {
    pid_t pid;
    int pidfd;
  };

  void Reap(int rank, bool wait) {
    const Child child = running_[rank];
    int status = 0;
    if (waitpid(child.pid, &status, wait ? 0 : WNOHANG) != child.pid) return;
    close(child.pidfd);
    running_.erase(rank);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kStoppedExitCode) {
      stopped_ = true;
      return;
    }
    const std::string failure = Failure(status);
    if (failure.empty()) return;
    const bool cause = options_.is_cause != nullptr && options_.is_cause(rank);
    if (failure_.empty() || (cause && !cause_found_ && !killed_)) {
      failure_ = absl::StrCat("rank ", rank, " (pid ", child.pid, ") ", failure);
      killed_ = WIFSIGNALED(status);
    }
    cause_found_ = cause_found_ || cause;
  }

  const LaunchOptions& options_;  // of Launch()
  absl::Time kill_at_ = absl::InfiniteFuture();
  std::map<int, Child> running_;  // by rank
  std::string failure_;
  bool killed_ = false;
  bool cause_found_ = false;  // failure_ is that of the rank that caused the others'
  bool stopped_ = false;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> RankVariables(const LaunchOptions& options,
                                                               int rank) {
  const std::string world = absl::StrCat(options.ranks);
  return {{"RANK", absl::StrCat(rank)},
          {"LOCAL_RANK", absl::StrCat(rank)},
          {"WORLD_SIZE", world},
          {"LOCAL_WORLD_SIZE", world},
          {"GROUP_RANK", "0"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", absl::StrCat(options.master_port)},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RESTART_COUNT", "0"}};
}

absl::Status Launch(const LaunchOptions& options, int* received) {
  *received = 0;
  SignalPipe signals;
  if (signals.fd() < 0)
    return absl::InternalError(absl::StrCat("cannot open a pipe: ", std::strerror(errno)));
  Ranks ranks(options);
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (absl::Status status = ranks.Start(rank); !status.ok()) return status;
  }
  bool ending = false;
  while (!ranks.empty()) {
    ranks.Wait(signals);
    while (const int signal = signals.Next()) {
      *received = signal;
      if (signal == SIGINT) {
        ranks.End(signal);
      } else {
        ranks.SignalAll(signal);  // their second one ends them at once
      }
    }
    if (!ranks.failure().empty() && !ending) {
      ending = true;
      ranks.End(SIGTERM);
    }
  }
  const std::string advice =
      ranks.killed() && options.advice != nullptr ? options.advice() : std::string();
  if (*received != 0 && ranks.killed()) {
    return absl::CancelledError(
        absl::StrCat("ended by signal ", *received, " (", strsignal(*received), ")", advice));
  }
  if (!ranks.failure().empty()) return absl::AbortedError(absl::StrCat(ranks.failure(), advice));
  if (ranks.stopped()) return absl::UnavailableError("the ranks stopped early");
  return absl::OkStatus();
}

}  // namespace ranklog::trainer
