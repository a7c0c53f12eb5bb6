#include "client/run/console_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/base/process.h"
#include "client/launch/daemon_start.h"
#include "ranklog/v1/output_channel.h"

namespace ranklog::internal {
namespace {

constexpr int kAboveStandard = 3;
// A program of the same node starts much faster, also under load.
constexpr int kStartPatienceMs = 2000;

std::atomic<bool> capturing = false;
std::atomic<ConsoleCapture*> current = nullptr;  // the last one

void Close(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

// Of the daemon that this process uses: its settings may differ from its environment.
std::vector<std::string> ReaderEnvironment(const Settings& settings) {
  std::vector<std::string> variables = ProgramEnvironment(settings);
  const auto set = [&](const char* name, const std::string& value) {
    const std::string prefix = absl::StrCat(name, "=");
    std::erase_if(variables, [&](const auto& text) { return absl::StartsWith(text, prefix); });
    if (!value.empty()) variables.push_back(prefix + value);
  };
  set("RANKLOG_HANDLE", "");
  set("RANKLOG_ADDRESS", settings.address);
  set("RANKLOG_STATE_DIR", settings.state_dir);
  set("RANKLOG_SPOOL_DIR", settings.spool_dir);
  set("RANKLOG_DAEMON", settings.daemon);
  return variables;
}

}  // namespace

absl::StatusOr<ConsoleCapture*> ConsoleCapture::Start(const std::string& handle,
                                                      const Settings& settings,
                                                      std::function<void()> on_loss) {
  const std::string program = FindProgram("ranklog", settings.daemon);
  if (program.empty()) {
    return absl::NotFoundError(
        "cannot capture the console: `ranklog` is not installed beside the program, beside this "
        "library, in its ../bin or in PATH");
  }
  if (fcntl(STDOUT_FILENO, F_GETFD) < 0 || fcntl(STDERR_FILENO, F_GETFD) < 0) {
    return absl::FailedPreconditionError("cannot capture the console: stdout or stderr is closed");
  }
  if (capturing.exchange(true)) {
    return absl::FailedPreconditionError("the console of this process is being captured already");
  }
  auto* const capture = new ConsoleCapture;
  capture->generation_ = Generation();
  fflush(stdout);
  fflush(stderr);
  int ends[2] = {-1, -1};
  absl::Status status;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    status = absl::ErrnoToStatus(errno, "cannot make a socket");
  }
  capture->control_ = ends[0];
  capture->one_ = v1::AreSameFile(STDOUT_FILENO, STDERR_FILENO);
  std::vector<int> descriptors = {ends[1], STDOUT_FILENO, STDERR_FILENO};
  std::string numbers;
  v1::OutputChannel channels[2];
  for (int i = 0; i < (capture->one_ ? 1 : 2) && status.ok(); ++i) {
    Stream& stream = capture->streams_[i];
    const int number = i + 1;
    stream.before = fcntl(number, F_DUPFD_CLOEXEC, kAboveStandard);
    if (!v1::MakeOutputChannel(number, &channels[i])) {
      status = absl::ErrnoToStatus(errno, "cannot make a pipe or a terminal");
    }
    stream.reads = channels[i].reads;
    descriptors.push_back(stream.reads);
    numbers += static_cast<char>('0' + number);
  }
  if (status.ok()) {
    status = StartProgram({program, "console-reader", handle, numbers}, ReaderEnvironment(settings),
                          descriptors);
  }
  Close(&ends[1]);
  capture->on_loss_ = std::move(on_loss);
  if (status.ok()) {
    pollfd ready = {capture->control_, POLLIN, 0};
    char byte = 0;
    poll(&ready, 1, kStartPatienceMs);
    if (recv(capture->control_, &byte, 1, MSG_DONTWAIT) != 1) {
      status = absl::UnavailableError(absl::StrCat(program, " console-reader does not start"));
    }
  }
  if (status.ok()) {
    for (int i = 0; i < 2; ++i) {
      dup2(channels[capture->one_ ? 0 : i].writes, i + 1);
      fstat(i + 1, &capture->captured_[i]);
    }
    if (!capture->StartWatch()) {
      capture->Restore();
      status = absl::UnavailableError("cannot start a thread");
    }
  }
  for (v1::OutputChannel& channel : channels) Close(&channel.writes);
  if (status.ok()) {
    static const int registered = atexit([] {
      if (ConsoleCapture* const last = current.load()) last->Stop();
    });
    (void)registered;  // without it, the last output may come after the process's end
    current = capture;
    return capture;
  }
  capturing = false;
  for (Stream& stream : capture->streams_) {
    Close(&stream.before);
    Close(&stream.reads);
  }
  Close(&capture->control_);
  delete capture;
  return absl::UnavailableError(absl::StrCat("cannot capture the console: ", status.message()));
}

bool ConsoleCapture::StartWatch() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);  // signals are for the program's threads
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread([this] { Watch(); }).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

// Sees the reader's answer to Stop(), or its end.
void ConsoleCapture::Watch() {
  pthread_setname_np(pthread_self(), "ranklog-console");
  char byte = 0;
  ssize_t got = 0;
  while ((got = read(control_, &byte, 1)) < 0 && errno == EINTR) {
  }
  const bool lost = got <= 0;
  // What is in the pipes would be lost, and a thread that waits for room in one would wait for ever.
  // First before the program writes past it, so that the order stays; once more for what came in
  // between.
  if (lost) PassOn(/*to_end=*/false);
  Restore();
  if (lost) PassOn(/*to_end=*/false);
  if (lost && !stopping_.load()) on_loss_();
  done_.store(true);
  changed_.NotifyAll();
  // Children of this process may still print. A living reader has its own ends.
  if (lost) PassOn(/*to_end=*/true);
  for (Stream& stream : streams_) Close(&stream.reads);
  capturing = false;
}

void ConsoleCapture::PassOn(bool to_end) {
  while (true) {
    pollfd readable[2];
    for (int i = 0; i < 2; ++i) readable[i] = {streams_[i].reads, POLLIN, 0};
    if (streams_[0].reads < 0 && streams_[1].reads < 0) return;
    const int count = poll(readable, 2, to_end ? -1 : 0);
    if (count == 0) return;
    for (int i = 0; i < 2 && count > 0; ++i) {
      if (readable[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t bytes = read(streams_[i].reads, buffer, sizeof buffer);
      if (bytes <= 0 && !(bytes < 0 && errno == EINTR)) Close(&streams_[i].reads);
      for (ssize_t at = 0; at < bytes;) {
        const ssize_t written =
            write(streams_[i].before, buffer + at, static_cast<size_t>(bytes - at));
        if (written <= 0) break;
        at += written;
      }
    }
  }
}

void ConsoleCapture::CloseInChild() {
  ConsoleCapture* const capture = current.load();
  if (capture == nullptr) return;
  close(capture->control_);
  for (Stream& stream : capture->streams_) Close(&stream.reads);
}

void ConsoleCapture::Restore() {
  if (restored_.exchange(true)) return;
  for (int i = 0; i < 2; ++i) {
    struct stat now {};
    // The program may have redirected it itself since.
    const bool ours = fstat(i + 1, &now) == 0 && now.st_dev == captured_[i].st_dev &&
                      now.st_ino == captured_[i].st_ino;
    if (ours) dup2(streams_[one_ ? 0 : i].before, i + 1);
  }
}

void ConsoleCapture::Stop() {
  if (generation_ != Generation()) return;
  stopping_ = true;
  fflush(stdout);
  fflush(stderr);
  Restore();
  const char byte = 'f';
  if (!done_.load()) send(control_, &byte, 1, MSG_NOSIGNAL);
  const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
  while (true) {
    const uint32_t seen = changed_.Count();
    if (done_.load() || std::chrono::steady_clock::now() >= deadline) return;
    changed_.WaitUntil(seen, deadline);
  }
}

}  // namespace ranklog::internal
