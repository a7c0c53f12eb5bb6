// A rank whose run other processes join by its handle.
//
//   attaching_rank COUNTER_FILE steps|open argument|variable CHILDREN ROWS
//       starts programs that join its run, and get the handle in this way. Waits until each has a
//       durable row. Then all processes log ROWS rows, with or without steps, each by its own key:
//       maker, child0, child1, ... Then waits for the children, and calls Finish(0)
//   attaching_rank COUNTER_FILE killed
//       starts one such program, which logs until RankCounter.stop is set, and kills itself
//   attaching_rank COUNTER_FILE finished
//       prints its handle, logs 10 rows and calls Finish(3)
//   attaching_rank COUNTER_FILE join HANDLE KEY ROWS steps|open|until_stopped [PIPE]
//       joins by the handle, or as Init() does if that is "-". Then calls Finish(7)
//   attaching_rank COUNTER_FILE pool PROCESSES RUNS [run]
//       forks processes that make RUNS runs each, with 10 rows in each, while threads hold locks of
//       libc. With "run" it has a run of its own meanwhile
//
// Exit code 0 if all rows were taken and durable.

#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "ranklog/ranklog.h"
#include "tests/integration/rank_counter.h"

namespace {

ranklog::testing::RankCounter* counter = nullptr;
std::string counter_file;

bool IsDurable(ranklog::FlushResult result) { return result == ranklog::FlushResult::kDurable; }

void LogRow(ranklog::Run& run, const std::string& key, int row, bool with_step) {
  const bool taken = with_step ? run.Log({{key, row}}, row) : run.Log({{key, row}});
  ++(taken ? counter->returned : counter->refused);
}

void LogRest(ranklog::Run& run, const std::string& key, int rows, const std::string& how) {
  for (int i = 1; how == "until_stopped" ? counter->stop == 0 : i < rows; ++i) {
    LogRow(run, key, i, how == "steps");
    usleep(1000);
  }
}

int Join(ranklog::Run run, const std::string& key, int rows, const std::string& how, int begun) {
  LogRow(run, key, 0, how == "steps");
  if (!IsDurable(run.Flush(std::chrono::seconds(30)))) return 4;
  if (begun >= 0 && write(begun, "x", 1) != 1) return 5;
  if (begun >= 0) close(begun);
  LogRest(run, key, rows, how);
  return IsDurable(run.Finish(7)) ? 0 : 6;
}

// Starts this program again as a child that joins the run.
pid_t StartChild(const std::string& handle, bool by_variable, int number, const std::string& rows,
                 const std::string& how, int begun) {
  const std::string key = "child" + std::to_string(number);
  const std::string pipe_end = std::to_string(begun);
  const pid_t child = fork();
  if (child != 0) return child;
  if (by_variable) setenv("RANKLOG_HANDLE", handle.c_str(), 1);
  execl("/proc/self/exe", "attaching_rank", counter_file.c_str(), "join",
        by_variable ? "-" : handle.c_str(), key.c_str(), rows.c_str(), how.c_str(),
        pipe_end.c_str(), nullptr);
  _exit(8);
}

int WaitForAll(const std::vector<pid_t>& processes) {
  int failed = 0;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed;
}

int Make(const std::string& how, const std::string& way, int children, const std::string& rows) {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  const bool with_steps = how == "steps";
  LogRow(run, "maker", 0, with_steps);
  int begun[2];
  if (pipe(begun) != 0) return 3;
  std::vector<pid_t> started;
  for (int i = 0; i < children; ++i) {
    started.push_back(StartChild(run.Handle(), way == "variable", i, rows, how, begun[1]));
  }
  close(begun[1]);
  char byte;
  for (int i = 0; i < children; ++i) {
    if (read(begun[0], &byte, 1) != 1) return 4;
  }
  if (how == "until_stopped") raise(SIGKILL);
  LogRest(run, "maker", atoi(rows.c_str()), how);
  const int failed = WaitForAll(started);
  return IsDurable(run.Finish(0)) && failed == 0 && counter->refused == 0 ? 0 : 1;
}

int Finish() {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  printf("handle %s.\n", run.Handle().c_str());
  fflush(stdout);
  for (int i = 0; i < 10; ++i) LogRow(run, "maker", i, /*with_step=*/true);
  return IsDurable(run.Finish(3)) ? 0 : 1;
}

int MakeRuns(int process, int runs) {
  for (int i = 0; i < runs; ++i) {
    ranklog::Settings settings = ranklog::Settings::FromEnvironment();
    settings.run_id = "pool-" + std::to_string(process) + "-" + std::to_string(i);
    ranklog::Run run = ranklog::Init(settings);
    for (int row = 0; row < 10; ++row) LogRow(run, "row", row, /*with_step=*/true);
    if (!IsDurable(run.Finish(0))) return 6;
  }
  return 0;
}

// Holds locks of libc nearly always, which children inherit. A program does so while it loads libraries
// or prints times.
void HoldLocks() {
  const auto in_loader = [](dl_phdr_info*, size_t, void*) {
    usleep(1000);
    return 0;
  };
  std::thread([in_loader] {
    while (true) dl_iterate_phdr(in_loader, nullptr);
  }).detach();
  std::thread([] {
    const time_t time = 0;
    tm local = {};
    while (true) localtime_r(&time, &local);
  }).detach();
}

int Pool(int processes, int runs, bool has_run) {
  HoldLocks();
  ranklog::Run run;
  if (has_run) {
    run = ranklog::Init(ranklog::Settings::FromEnvironment());
    LogRow(run, "row", 0, /*with_step=*/true);
  }
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child == 0) exit(MakeRuns(i, runs));  // as multiprocessing ends a process of its pool
    children.push_back(child);
  }
  const int failed = WaitForAll(children);
  if (has_run && !IsDurable(run.Finish(0))) return 1;
  return failed == 0 && counter->refused == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  counter_file = argv[1];
  counter = ranklog::testing::MapRankCounter(counter_file);
  if (counter == nullptr) return 2;
  const std::string how = argv[2];
  if (how == "finished") return Finish();
  if (how == "killed") return Make("until_stopped", "argument", 1, "0");
  if (how == "pool" && argc >= 5) return Pool(atoi(argv[3]), atoi(argv[4]), argc > 5);
  if (argc < 6) return 2;
  if (how != "join") return Make(how, argv[3], atoi(argv[4]), argv[5]);
  if (argc < 7) return 2;
  const std::string handle = argv[3];
  return Join(
      handle == "-" ? ranklog::Init(ranklog::Settings::FromEnvironment()) : ranklog::Attach(handle),
      argv[4], atoi(argv[5]), argv[6], argc > 7 ? atoi(argv[7]) : -1);
}
