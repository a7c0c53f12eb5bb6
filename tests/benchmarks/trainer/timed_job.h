// Trainings that take turns: what is compared runs in the same minute on the same cores.

#ifndef TESTS_BENCHMARKS_TRAINER_TIMED_JOB_H_
#define TESTS_BENCHMARKS_TRAINER_TIMED_JOB_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/parallel/process_group.h"

namespace ranklog::benchmarks {

// Ends this program, which run.py reports.
[[noreturn]] void Die(const std::string& what);

// A program that is started with pipes to its stdin and from its stdout. When this object goes, its
// input ends, and it is waited for.
class Child {
 public:
  Child(const std::vector<std::string>& command,
        const std::map<std::string, std::string>& environment);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Write(const std::string& line);
  std::string ReadLine();  // without its end; ends this program where there is none

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

// What the threads of a process have computed so far; 0 if there is none. With those of the
// processes that it has started, where asked.
double ProcessCpuSeconds(pid_t pid);
double DescendantsCpuSeconds(pid_t pid);

// A line of /proc/PID/status, in MiB: VmHWM, RssFile.
double MemoryMib(pid_t pid, const std::string& key);

// What a turn of a job took.
struct Turn {
  double tokens_per_second = 0;  // over all ranks
  double seconds = 0;            // mean over the ranks
  double cpu_seconds = 0;        // of all ranks' processes
};

// Ranks that train (training_rank.cc, training_rank.py), and do so only in their turns.
class TimedJob {
 public:
  enum Ties { kTogether, kEachAlone };

  // `ranks` processes: a job by DDP over the loopback interface, or jobs of one rank each that know
  // nothing of each other. A thread for each. Waits until all are about to train.
  TimedJob(const std::vector<std::string>& command, int ranks, Ties ties,
           std::map<std::string, std::string> environment = {});

  // `steps` steps of all ranks at once. With `log` they log ten metrics each after each step.
  Turn Take(int steps, bool log = false);

  const std::vector<std::unique_ptr<Child>>& ranks() const { return ranks_; }

 private:
  trainer::HostedStore store_;
  std::vector<std::unique_ptr<Child>> ranks_;
};

}  // namespace ranklog::benchmarks

#endif  // TESTS_BENCHMARKS_TRAINER_TIMED_JOB_H_
