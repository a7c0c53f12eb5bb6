// The interface of a run for the sender and its streams.

#ifndef CLIENT_STREAM_STREAMED_RUN_H_
#define CLIENT_STREAM_STREAMED_RUN_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "client/base/process.h"
#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// Use it on the sender's thread, or on a thread that has paused the sender.
class StreamedRun {
 public:
  virtual ~StreamedRun() = default;

  virtual const Settings& settings() const = 0;
  // The variables of the job that its deliveries need besides the key.
  virtual const std::map<std::string, std::string>& job_variables() const = 0;
  virtual int64_t open_step() const = 0;
  // This process is a forked child, and its parent made the run.
  virtual bool IsInherited() const = 0;

  virtual void SetLastError(std::string error) = 0;
  // Sets the reason why no daemon takes the rows; empty if one does.
  virtual void SetConnectionError(std::string error) = 0;
  // Handles a message from the daemon for one of the run's streams.
  virtual void OnServerMessage(const v1::ServerMessage& message) = 0;

  // True while the end of the run waits until the tracker has the whole run.
  virtual bool AwaitsDelivery() const = 0;
  // Called when the daemon can no longer report the delivery.
  virtual void StopAwaitingDelivery() = 0;

  // Prints new messages for the user. Returns true if no more will follow. `last`: the process
  // ends, so this is the last call.
  virtual bool PrintMessages(std::chrono::steady_clock::time_point now, bool last) = 0;
  // Stops the calls of on_message at the exit of the process, because objects that it uses may be
  // destroyed already.
  virtual void StopCallbacks() = 0;
  // For exit(), which does not destroy a Run that lives in a function. Waits as Finish() does, if
  // the end of the run must wait for delivery.
  virtual void FinishAtExit(int exit_code) = 0;
};

// The secrets of the run's destinations, and the variables of the job that its deliveries need.
inline void AddCredentials(const StreamedRun& run, v1::Hello* hello) {
  auto* const credentials = hello->mutable_credentials();
  for (const auto& [name, value] : run.job_variables()) (*credentials)[name] = value;
  for (const auto& [name, value] : run.settings().credentials) (*credentials)[name] = value;
}

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_STREAMED_RUN_H_
