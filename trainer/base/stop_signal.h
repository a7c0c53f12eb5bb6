#ifndef TRAINER_BASE_STOP_SIGNAL_H_
#define TRAINER_BASE_STOP_SIGNAL_H_

#include <signal.h>

namespace ranklog::trainer {

// The exit code of a training that was told to stop before its last step: EX_TEMPFAIL of
// sysexits.h, "try again". A launcher or a job script starts it again on this one.
constexpr int kStoppedExitCode = 75;

// While it lives, SIGTERM and SIGUSR1 ask the training to stop after its step instead of ending the
// process. A second signal, at least two seconds later, ends the process at once. Sooner ones count
// as the first: Slurm signals a launcher and its ranks, and the launcher hands the signal on.
//
// One at a time, made and destroyed on one thread. The signals may come on any.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that came; 0: none.
  int received() const;

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_usr1_ = {};
};

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_STOP_SIGNAL_H_
