// A rank that logs 200 rows and ends in one of the ways in which programs end. Only
// late-thread, refused, fork and threads call Finish().
//
//   ending_rank [early] HOW [FIRST_STEP]
//
//   early         do not wait until a daemon has the first rows
//
//   segfault, abort, exception
//   kill, terminate   sends itself SIGKILL or SIGTERM
//   exit-N            calls exit(N)
//   thread-exit       another thread calls exit()
//   busy-exit         calls exit() while another thread logs
//   static            returns from main, with the run in a static variable
//   memory            writes to more and more memory
//   no-memory         the same under RLIMIT_AS
//   return-N          returns N from main, after the run's destructor
//   crash-after       crashes after the run's destructor
//   destroyed         waits after the run's destructor
//   late-thread       another thread logs for the first time during Finish(); code 3: not durable
//   exec              runs itself with "return-0 200"
//   exec-other        runs a program that only waits
//   refused           calls Finish(), logs 3 rows and 4 by another thread, and kills itself
//   fork              a forked child logs 50 rows and calls _exit(); then calls Finish()
//   family            after "early": a forked child logs "brief" at steps 100 to 149 and ends, another
//                     logs "side" at steps 150 to 199; all wait for a daemon, then calls Finish()
//   threads           six times, eight threads log the next 100 steps each; then 30 threads, one
//                     after the other, log steps 0 to 9, which is late. Code 4: a row was refused;
//                     5: more than 20 rings are left

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ranklog/ranklog.h"

namespace {

ranklog::Run static_run;

void TakeMemory() {
  std::vector<std::string> taken;
  while (true) taken.emplace_back(8 << 20, 'x');
}

size_t RingsIn(const std::string& dir) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir), {}));
}

// Finishes while the thread's ring is being made: its file exists, but has no row. The thread
// continues while the process exits.
void FinishBesideALateThread(ranklog::Run run) {
  auto* const kept = new ranklog::Run(std::move(run));
  std::thread([kept] { kept->Log({{"late", 1}}); }).detach();
  while (RingsIn(kept->settings().spool_dir) < 2) {
  }
  exit(kept->Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3);
}

void LogByThread(ranklog::Run& run, const std::string& key, int first, int last) {
  for (int step = first; step < last; ++step) run.Log({{key, step}}, step);
}

void LogByManyThreads(ranklog::Run run) {
  for (int first = 200; first < 800; first += 100) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back(LogByThread, std::ref(run), "thread_" + std::to_string(i), first,
                           first + 100);
    }
    for (std::thread& thread : threads) thread.join();
    if (run.Flush(std::chrono::minutes(1)) != ranklog::FlushResult::kDurable) exit(3);
  }
  for (int i = 0; i < 30; ++i) {
    std::thread(LogByThread, std::ref(run), "late", 0, 10).join();
    run.Flush(std::chrono::minutes(1));
  }
  if (run.stats().lost_step_behind > 0) exit(4);
  if (RingsIn(run.settings().spool_dir) > 20) exit(5);
  exit(run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3);
}

void LogAfterFinish(ranklog::Run run) {
  if (run.Finish(0) != ranklog::FlushResult::kDurable) exit(3);
  LogByThread(run, "loss", 200, 203);
  std::thread(LogByThread, std::ref(run), "loss", 203, 207).join();
  raise(SIGKILL);
}

void FinishAfterAChild(ranklog::Run run) {
  const pid_t child = fork();
  if (child == 0) {
    LogByThread(run, "loss", 200, 250);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  exit(run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3);
}

void FinishWithChildren(ranklog::Run run) {
  const pid_t brief = fork();
  if (brief == 0) {
    LogByThread(run, "brief", 100, 150);
    _exit(0);
  }
  waitpid(brief, nullptr, 0);
  const pid_t side = fork();
  if (side == 0) {
    LogByThread(run, "side", 150, 200);
    _exit(run.Flush(std::chrono::minutes(1)) == ranklog::FlushResult::kDurable ? 0 : 1);
  }
  std::cout << "forked" << std::endl;
  if (run.Flush(std::chrono::minutes(1)) != ranklog::FlushResult::kDurable) exit(1);
  int status = 0;
  waitpid(side, &status, 0);
  if (status != 0) exit(1);
  exit(run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3);
}

void End(const std::string& how, char** argv) {
  if (how == "segfault") {
    void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile char*>(page) = 0;
  } else if (how == "abort") {
    abort();
  } else if (how == "exception") {
    throw std::runtime_error("the data loader failed");
  } else if (how == "kill" || how == "terminate") {
    raise(how == "kill" ? SIGKILL : SIGTERM);
  } else if (how.rfind("exit-", 0) == 0) {
    exit(atoi(how.c_str() + 5));
  } else if (how == "thread-exit") {
    std::thread([] { exit(0); }).join();
  } else if (how == "memory") {
    TakeMemory();
  } else if (how == "no-memory") {
    const rlimit limit = {2UL << 30, 2UL << 30};
    setrlimit(RLIMIT_AS, &limit);
    TakeMemory();
  } else if (how == "exec") {
    execl("/proc/self/exe", argv[0], "return-0", "200", nullptr);
  } else if (how == "exec-other") {
    execlp("sleep", "sleep", "60", nullptr);
  }
}

int Train(bool early, int argc, char** argv) {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  const int first = argc > 2 ? atoi(argv[2]) : 0;
  for (int step = first; step < first + 100; ++step) run.Log({{"loss", step}}, step);
  // Waits until it has attached. Otherwise the daemon first learns of the rank when it finds the
  // ring.
  if (!early && run.Flush(std::chrono::minutes(1)) != ranklog::FlushResult::kDurable) return 1;
  for (int step = first + 100; step < first + 200; ++step) run.Log({{"loss", step}}, step);
  if (std::string(argv[1]) == "late-thread") FinishBesideALateThread(std::move(run));
  if (std::string(argv[1]) == "static") static_run = std::move(run);
  if (std::string(argv[1]) == "busy-exit") {
    std::thread([&run] {
      while (true) run.Log({{"busy", 1}});
    }).detach();
    exit(0);
  }
  if (std::string(argv[1]) == "threads") LogByManyThreads(std::move(run));
  if (std::string(argv[1]) == "refused") LogAfterFinish(std::move(run));
  if (std::string(argv[1]) == "fork") FinishAfterAChild(std::move(run));
  if (std::string(argv[1]) == "family") FinishWithChildren(std::move(run));
  End(argv[1], argv);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const bool early = std::string(argv[1]) == "early";
  if (early) {
    ++argv;
    --argc;
  }
  const std::string how = argv[1];
  const int code = Train(early, argc, argv);
  if (how == "crash-after") abort();
  if (how == "destroyed") pause();
  return how.rfind("return-", 0) == 0 ? atoi(how.c_str() + 7) : code;
}
