#include "client/stream/daemon_starter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ranklog/settings.h"

namespace ranklog::internal {
namespace {

constexpr std::chrono::seconds kDaemonStart{10};  // between two attempts to start a daemon

}  // namespace

bool DaemonStarter::Try(const std::vector<SocketLocation>& places, const Settings* settings,
                        const std::string& former_state_dir, Time now) {
  if (now > lock_until_) lock_.reset();
  if (settings == nullptr) {
    note_ =
        "; RANKLOG_START_DAEMON (start_daemon) is off: start ranklogd, or run `ranklog sync` later";
    return false;
  }
  // From the last daemon that any rank started.
  for (const SocketLocation& place : places) {
    std::string words = StartFailure(place);
    if (words.empty()) continue;
    error_ = "ranklogd cannot start: " + std::move(words);
    break;
  }
  if (lock_ != nullptr || now < not_before_) return false;
  const std::string program = FindDaemon(settings->daemon);
  if (program.empty()) {
    not_before_ = now + kDaemonStart;
    error_ =
        "cannot find ranklogd beside the program, beside this library, in its ../bin or in PATH; "
        "set RANKLOG_DAEMON, or start ranklogd";
    return false;
  }
  absl::Status why_not;
  for (const SocketLocation& place : places) {
    // A daemon would refuse to listen where others can put a socket in its place.
    why_not = Prepare(place.dir);
    if (!why_not.ok()) continue;
    auto lock = StartLock::Take(place);
    if (absl::IsUnavailable(lock.status())) return true;  // another process starts it
    why_not = lock.status();
    if (!why_not.ok()) continue;
    not_before_ = lock_until_ = now + kDaemonStart;
    const absl::Status status = StartDaemon(program, place, *settings, former_state_dir);
    if (!status.ok()) {
      error_ = std::string(status.message());
      return false;
    }
    lock_ = *std::move(lock);
    note_ = absl::StrCat("; ", program, " was started, and does not answer yet");
    return true;
  }
  not_before_ = now + kDaemonStart;
  error_ = absl::StrCat("no daemon answers, and none can be started: ", why_not.message());
  return false;
}

void DaemonStarter::Answered() {
  lock_.reset();
  error_.clear();
  note_.clear();
}

std::string DaemonStarter::Explain(const absl::Status& failed) const {
  return error_.empty() ? absl::StrCat(failed.message(), note_) : error_;
}

}  // namespace ranklog::internal
