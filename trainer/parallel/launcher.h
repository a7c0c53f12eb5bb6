#ifndef TRAINER_PARALLEL_LAUNCHER_H_
#define TRAINER_PARALLEL_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ranklog::trainer {

struct LaunchOptions {
  std::vector<std::string> command;  // program and arguments, the same for all ranks
  int ranks = 1;
  uint16_t master_port = 0;                  // of the caller's store, see HostedStore
  absl::Duration grace = absl::Seconds(10);  // between SIGTERM and SIGKILL for ranks that must end
  // Whether a failed rank was the cause. Other ranks fail because of it, and may end before it.
  std::function<bool(int rank)> is_cause = nullptr;
  // Advice after a signal ended a rank, appended to the message.
  std::function<std::string()> advice = nullptr;
};

// The variables that torchrun would set for `rank` of `options.ranks` on one machine.
std::vector<std::pair<std::string, std::string>> RankVariables(const LaunchOptions& options,
                                                               int rank);

// Runs all ranks and waits for them. Passes SIGINT, SIGTERM and SIGUSR1 on to them, and ignores
// these signals afterwards, so that a late one does not change how this process ends. A SIGINT that
// is ignored already, as in a background job, stays ignored here and in the ranks. After SIGINT
// the ranks must end within `grace`; after the other signals they may take as long as they need,
// see StopSignal. When a rank fails or does not start, ends the others. The ranks are killed if
// this process dies. Call it from the main thread, once at a time.
//   kAborted      a rank failed; the message names the rank and the reason
//   kUnavailable  the ranks stopped early after a signal, see kStoppedExitCode: start again
//   kCancelled    a signal to this process ended the ranks
//   kInternal     a rank could not be started
// `*received` is the signal that this process received, 0 if none.
absl::Status Launch(const LaunchOptions& options, int* received);

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_LAUNCHER_H_
