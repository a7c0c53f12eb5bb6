// A rank that forks. All its processes log rows and count them in a shared file.
//
//   forking_rank COUNTER_FILE HOW
//
//   busy      forks 100 children while another thread logs. Every second child logs; one in four also
//             waits until its rows are durable. Then calls Finish()
//   tree      eight children log until RankCounter.stop is set. Every second one forks a child that
//             logs, too. At the end, some processes call Finish(), exit(), _exit() or kill
//             themselves. Waits for all of them, then calls Finish()
//   orphaned  the same, but kills itself when RankCounter.stop is set
//   early     logs 10 rows without steps, forks eight children that do the same for a while, and kills
//             itself at once
//   own       a disabled run forks a child that makes a run of its own, logs 10 rows and waits until
//             they are durable
//
// Exit code 0 if all that a process waited for was durable, and no row was refused.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ranklog/ranklog.h"
#include "tests/integration/rank_counter.h"

namespace {

ranklog::testing::RankCounter* counter = nullptr;

bool IsDurable(ranklog::FlushResult result) { return result == ranklog::FlushResult::kDurable; }

void LogRows(ranklog::Run& run, const std::string& key, int rows) {
  for (int i = 0; i < rows; ++i) {
    if (run.Log({{key, i}})) {
      ++counter->returned;
    } else {
      ++counter->refused;
    }
  }
}

// Returns how many of the processes failed.
int WaitForAll(const std::vector<pid_t>& processes) {
  int failed = 0;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
  }
  return failed;
}

int ForkBesideABusyThread(ranklog::Run& run) {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    // The daemon of a loaded machine may be behind by more than the spool takes.
    for (int i = 1; !stop; ++i) {
      LogRows(run, "busy", 20);
      if (i % 50 == 0) run.Flush(std::chrono::seconds(30));
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  int failed = 0;
  for (int i = 0; i < 100; i += 4) {
    std::vector<pid_t> children;
    for (int j = i; j < i + 4; ++j) {
      const pid_t child = fork();
      if (child == 0) {
        if (j % 2 == 1) LogRows(run, "child", 5);
        if (j % 4 == 1 && !IsDurable(run.Flush(std::chrono::seconds(30)))) exit(11);
        exit(0);
      }
      children.push_back(child);
    }
    failed += WaitForAll(children);
  }
  stop = true;
  busy.join();
  return failed;
}

// In a child. Never returns.
void LogUntilStopped(ranklog::Run& run, int number) {
  const std::string key = "child" + std::to_string(number);
  std::vector<pid_t> children;
  if (number % 2 == 0 && number < 8) {
    LogRows(run, key, 1);
    children.push_back(fork());
    if (children[0] == 0) LogUntilStopped(run, number + 8);
  }
  while (counter->stop == 0) {
    LogRows(run, key, 5);
    usleep(5000);
  }
  usleep(static_cast<useconds_t>(number) * 20'000);
  LogRows(run, key, 1);
  const int failed = WaitForAll(children);
  switch (number % 5) {
    case 0:
      _exit(failed + (IsDurable(run.Finish(0)) ? 0 : 3));
    case 1:
      _exit(failed);
    case 2:
      raise(SIGKILL);
      break;
    case 3:
      exit(failed);
    default:
      _exit(failed + (IsDurable(run.Flush(std::chrono::seconds(30))) ? 0 : 4));
  }
}

int ForkATree(ranklog::Run& run, bool orphaned) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) LogUntilStopped(run, i);
    children.push_back(child);
  }
  while (counter->stop == 0) {
    LogRows(run, "parent", 5);
    usleep(5000);
  }
  if (orphaned) raise(SIGKILL);
  return WaitForAll(children);
}

void ForkEarly(ranklog::Run& run) {
  LogRows(run, "parent", 9);
  for (int i = 0; i < 8; ++i) {
    if (fork() != 0) continue;
    for (int j = 0; j < 30; ++j) {
      LogRows(run, "child" + std::to_string(i), 1);
      usleep(10'000);
    }
    _exit(0);
  }
  raise(SIGKILL);
}

// In a child of a process with a disabled run.
int LogToOwnRun() {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  LogRows(run, "own", 10);
  return IsDurable(run.Flush(std::chrono::seconds(30))) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  counter = ranklog::testing::MapRankCounter(argv[1]);
  if (counter == nullptr) return 2;
  const std::string how = argv[2];
  if (how == "own") {
    ranklog::Settings disabled;
    disabled.disabled = true;
    const ranklog::Run none = ranklog::Init(disabled);
    const pid_t child = fork();
    if (child == 0) _exit(LogToOwnRun());
    return WaitForAll({child});
  }
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  LogRows(run, "parent", 1);
  if (how == "early") ForkEarly(run);
  const int failed = how == "busy" ? ForkBesideABusyThread(run) : ForkATree(run, how == "orphaned");
  const bool durable = IsDurable(run.Finish(0));
  return failed == 0 && durable && counter->refused == 0 ? 0 : 1;
}
