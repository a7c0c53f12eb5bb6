// The console of a run: the program captures it itself, or `ranklog exec` does.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/run/run_state.h"
#include "client/settings/run_handle.h"

namespace ranklog::internal {
namespace {

// Set by `ranklog exec`: the file in which ranks announce their runs.
constexpr char kConsoleVariable[] = "RANKLOG_CONSOLE";

// Appends a line to that file; false: there is none, or it is not ours.
bool Announce(const std::string& line) {
  const char* const path = getenv(kConsoleVariable);
  if (path == nullptr || *path == 0) return false;
  const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat file {};
  const bool ours = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid();
  const bool written =
      ours && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  close(fd);
  return written;
}

}  // namespace

std::string RunState::ConsoleHandle() const {
  if (!usable_) return "";
  v1::RunHandle handle = handle_;
  handle.set_no_rows(true);
  return EncodeHandle(handle);
}

void RunState::AnnounceToConsole() {
  announced_ = Announce(absl::StrCat("attach ", *settings_.rank, " ", ConsoleHandle(), "\n"));
}

bool RunState::CaptureConsole() {
  if (settings_.disabled || announced_) return true;
  if (!usable_ || is_forked_) return RefuseItem("a forked child cannot capture the console");
  if (closed_.load()) return RefuseItem("the run has finished");
  const absl::StatusOr<ConsoleCapture*> capture =
      ConsoleCapture::Start(ConsoleHandle(), settings_, [run = weak_from_this()] {
        const std::shared_ptr<RunState> state = run.lock();
        if (state == nullptr) return;
        state->RefuseItem("the process that reads the console has ended; the rest is not logged");
      });
  if (!capture.ok()) return RefuseItem(std::string(capture.status().message()));
  MutexLock lock(StateMutex());
  capture_ = *capture;
  return true;
}

// The run ends only when the process that logs its console has ended its part.
void RunState::StopConsole() {
  ConsoleCapture* capture = nullptr;
  {
    MutexLock lock(StateMutex());
    capture = std::exchange(capture_, nullptr);
  }
  if (capture != nullptr) capture->Stop();
  if (!announced_ || is_forked_) return;
  // In a pipe, stdio keeps what was printed before. The reader ends its part at the announcement.
  fflush(stdout);
  fflush(stderr);
  Announce(absl::StrCat("finish ", ConsoleHandle(), "\n"));
}

}  // namespace ranklog::internal
