// ranklog exec: runs a program, and logs what it prints as the console of its run.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/console/command.h"
#include "service/cli/console/run_log.h"

namespace ranklog::cli {
namespace {

constexpr char kExecFooter[] = R"(
COMMAND prints to the terminal as without `ranklog exec`, has its exit code, and sees a terminal where it would see one.
What it prints from its start to the end of its run is logged as the console of that run: `ranklog logs RUN` shows it,
and W&B's page too. A progress bar counts as one line. More than 200 lines a second, after the first 10,000, are left
out of the log. If COMMAND starts several ranks, such as torchrun, the output is that of the lowest one; to log each
rank's own, let the launcher start `ranklog exec` for each rank, or call Run::CaptureConsole() in the program.
SIGTERM and SIGHUP are passed on to COMMAND. It keeps the process group, so it gets Ctrl-C itself. Other signals for the
training, such as SIGUSR1, must be sent to it or to its group: batch systems do that.

Examples:
  ranklog exec -- ./train --lr 0.1
  ranklog exec -- torchrun --nproc-per-node 8 train.py
  srun ranklog exec -- ./train)";

// How long to wait for a lower rank after the first one has announced its run. The lines wait too.
constexpr absl::Duration kLowerRank = absl::Seconds(10);
constexpr absl::Duration kAnnouncementPoll = absl::Milliseconds(100);
constexpr int kCannotRun = 126;
constexpr int kNoProgram = 127;

// The file in which the library announces the runs of the ranks: lines "attach RANK HANDLE" and
// "finish HANDLE".
class Announcements {
 public:
  Announcements() {
    const char* const dir = getenv("TMPDIR");
    path_ = absl::StrCat(dir != nullptr && dir[0] == '/' ? dir : "/tmp", "/ranklog-exec.XXXXXX");
    fd_ = UniqueFd(mkostemp(path_.data(), O_CLOEXEC));  // 0600
    if (!fd_.valid()) path_.clear();
  }
  ~Announcements() { Remove(); }
  void Remove() {
    if (!path_.empty()) unlink(path_.c_str());
    path_.clear();
  }
  Announcements(const Announcements&) = delete;
  Announcements& operator=(const Announcements&) = delete;

  const std::string& path() const { return path_; }

  void Read(absl::Time now) {
    char buffer[16 << 10];
    ssize_t bytes = 0;
    while (fd_.valid() && (bytes = pread(fd_.get(), buffer, sizeof buffer, at_)) > 0) {
      at_ += bytes;
      text_.append(buffer, static_cast<size_t>(bytes));
    }
    for (size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      const std::vector<std::string> words = absl::StrSplit(text_.substr(0, end), ' ');
      uint32_t rank = 0;
      if (words.size() == 3 && words[0] == "attach" && absl::SimpleAtoi(words[1], &rank)) {
        if (taken_ && rank != *taken_) continue;  // it may begin another run
        if (waiting_.empty()) first_at_ = now;
        waiting_.emplace(rank, words[2]);
      } else if (words.size() == 2 && words[0] == "finish") {
        finished_ = words[1];
      }
    }
  }
  // The run to log to; nullopt: none is known yet.
  std::optional<std::string> Take(absl::Time now, bool at_once) {
    if (waiting_.empty() ||
        (!at_once && now < first_at_ + kLowerRank && waiting_.begin()->first > 0))
      return std::nullopt;
    taken_ = waiting_.begin()->first;
    std::string handle = waiting_.begin()->second;
    waiting_.clear();
    return handle;
  }
  const std::string& finished() const { return finished_; }

 private:
  std::string path_;
  UniqueFd fd_;
  off_t at_ = 0;
  std::string text_;
  std::multimap<uint32_t, std::string> waiting_;
  std::optional<uint32_t> taken_;  // the rank
  absl::Time first_at_;
  std::string finished_;
};

// Ends as the command did.
[[noreturn]] void EndLike(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);  // there is the command's own
    signal(WTERMSIG(status), SIG_DFL);
    sigset_t signals;
    sigfillset(&signals);
    sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
  }
  _exit(WEXITSTATUS(status));
}

absl::Status NoCommand(const Globals&, const std::vector<std::string>&) {
  return WrongUsage("no command was given");
}

}  // namespace

int ExecMain(const std::vector<std::string>& command) {
  Announcements announcements;
  signal(SIGCHLD, SIG_DFL);  // ignored, it would hide the command's end
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal :
       {SIGCHLD, SIGTERM, SIGHUP, SIGWINCH, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU}) {
    sigaddset(&signals, signal);
  }
  sigset_t mask;
  sigprocmask(SIG_BLOCK, &signals, &mask);
  absl::StatusOr<StartedCommand> started =
      StartCommand(command, absl::StrCat("RANKLOG_CONSOLE=", announcements.path()), mask);
  for (const int signal : {SIGINT, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  if (!started.ok()) {
    std::cerr << "ranklog exec: " << started.status().message() << "\n";
    return absl::IsNotFound(started.status()) ? kNoProgram : kCannotRun;
  }
  std::vector<Source>& sources = started->sources;
  const UniqueFd arrived(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  std::vector<pollfd> others = {{arrived.get(), POLLIN, 0}};
  RunLog log;
  std::string handle;
  std::optional<int> status;
  while (!status || AnyOpen(sources)) {
    CopyUntil(&sources, &log, &others, kAnnouncementPoll);
    signalfd_siginfo info{};
    while (read(arrived.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGWINCH) CopyWindowSize(sources);
      if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP) {
        if (!status) kill(started->pid, static_cast<int>(info.ssi_signo));
      }
    }
    int ended = 0;
    if (!status && waitpid(started->pid, &ended, WNOHANG) == started->pid) status = ended;
    const absl::Time now = absl::Now();
    announcements.Read(now);
    if (!log.attached()) {
      if (auto next = announcements.Take(now, status.has_value())) {
        handle = *std::move(next);
        log.Attach(handle);
      }
    }
    log.FlushIfDue(now);
    if (log.attached() && (status || announcements.finished() == handle)) {
      Drain(&sources, &log);
      log.Finish(now);
    }
    // A process that the command left behind may still print. It must not hold up the end.
    if (status && AnyOpen(sources)) {
      Drain(&sources, &log);
      if (AnyOpen(sources) && fork() == 0) {
        setsid();
        others.clear();
        while (AnyOpen(sources)) CopyUntil(&sources, &log, &others, absl::Hours(1));
        _exit(0);
      }
      break;
    }
  }
  announcements.Remove();
  if (handle.empty() && isatty(STDERR_FILENO) == 1) {
    std::cerr << "ranklog exec: " << Printable(command.front())
              << " opened no run of Ranklog, so its output was not logged\n";
  }
  EndLike(*status);
}

void AddExec(Program& program) {
  auto [options, words] =
      program.Add("exec", "run a program, and log what it prints", kExecFooter, NoCommand);
  options.Add("COMMAND", &words, "the program and its arguments", {.required = true});
}

}  // namespace ranklog::cli
