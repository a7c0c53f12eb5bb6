// Starts a daemon for a sender that finds none, and says what came of it.

#ifndef CLIENT_STREAM_DAEMON_STARTER_H_
#define CLIENT_STREAM_DAEMON_STARTER_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/launch/daemon_start.h"
#include "client/settings/socket_address.h"

namespace ranklog::internal {

// For one thread.
class DaemonStarter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // No daemon answers at `places`. Starts one, unless it was tried some seconds ago. `settings`: of a
  // run that allows it; null: none does. True: a daemon was started, and answers soon.
  bool Try(const std::vector<SocketLocation>& places, const Settings* settings,
           const std::string& former_state_dir, Time now);
  // A daemon answers.
  void Answered();
  // Why there is no connection, after `failed`: with what was done, or why no daemon can be started.
  std::string Explain(const absl::Status& failed) const;

 private:
  std::unique_ptr<StartLock> lock_;
  Time lock_until_{};
  Time not_before_{};
  // Both are kept until a daemon answers.
  std::string error_;  // why none could be started
  std::string note_;   // else what was done to start one
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_DAEMON_STARTER_H_
