// Trainings that take turns, so that compared programs run in the same minute on the same cores.

#ifndef TESTS_BENCHMARKS_TRAINER_TIMED_JOB_H_
#define TESTS_BENCHMARKS_TRAINER_TIMED_JOB_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/parallel/process_group.h"

namespace ranklog::benchmarks {

// Ends this program with a failure, which run.py reports.
[[noreturn]] void Die(const std::string& what);

// A program with pipes to its stdin and from its stdout. The destructor closes its input and waits
// for its end.
class Child {
 public:
  Child(const std::vector<std::string>& command,
        const std::map<std::string, std::string>& environment);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Write(const std::string& line);
  std::string ReadLine();  // without the line feed; ends this program if there is no line

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

// The CPU time of a process so far, with all its threads; 0 if the process does not exist.
// Optionally with the processes that it has started.
double ProcessCpuSeconds(pid_t pid);
double DescendantsCpuSeconds(pid_t pid);

// The value of a line of /proc/PID/status, such as VmHWM or RssFile, in MiB.
double MemoryMib(pid_t pid, const std::string& key);

// The figures of one turn of a job.
struct Turn {
  double tokens_per_second = 0;  // over all ranks
  double seconds = 0;            // mean over the ranks
  double cpu_seconds = 0;        // of all ranks' processes
};

// Ranks that train only in their turns (tests/trainer/turns_rank.cc, training_rank.py).
class TimedJob {
 public:
  enum Ties { kTogether, kEachAlone };

  // Starts `ranks` processes with one thread each: one job by DDP over the loopback interface, or
  // separate jobs of one rank each. Waits until all are ready to train.
  TimedJob(const std::vector<std::string>& command, int ranks, Ties ties,
           std::map<std::string, std::string> environment = {});

  // Runs `steps` steps on all ranks at once. With `log`, each rank logs ten metrics after each step.
  Turn Take(int steps, bool log = false);

  const std::vector<std::unique_ptr<Child>>& ranks() const { return ranks_; }

 private:
  trainer::HostedStore store_;
  std::vector<std::unique_ptr<Child>> ranks_;
};

}  // namespace ranklog::benchmarks

#endif  // TESTS_BENCHMARKS_TRAINER_TIMED_JOB_H_
