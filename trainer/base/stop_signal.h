#ifndef TRAINER_BASE_STOP_SIGNAL_H_
#define TRAINER_BASE_STOP_SIGNAL_H_

#include <signal.h>

#include <string>

namespace ranklog::trainer {

// The exit code of a training that a signal stopped and that can be resumed: EX_TEMPFAIL of
// sysexits.h. A launcher or job script restarts the training on this code.
constexpr int kStoppedExitCode = 75;

// While this object exists, SIGTERM and SIGUSR1 request a stop after the current step instead of
// ending the process. A second signal, at least two seconds later, ends the process at once. An
// earlier one counts as the first: Slurm signals a launcher and its ranks, and the launcher passes
// the signal on.
//
// One at a time, created and destroyed on one thread. The signals may arrive on any thread.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The received signal; 0: none.
  int received() const;

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_usr1_ = {};
};

// Prints `text` when SIGINT ends the process, as Ctrl-C does, unless SIGINT is ignored. Call it
// once.
void PrintOnInterrupt(std::string text);

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_STOP_SIGNAL_H_
