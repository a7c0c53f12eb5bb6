// A minimal trainer, linked with libranklog.so like a real one. It takes its settings from the
// environment.
//
//   rank_program HOW [N]     logs N rows, then ends as HOW says

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "ranklog/ranklog.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace {

ranklog::Run static_run;

long LogRows(ranklog::Run& run, long count) {
  long logged = 0;
  for (long i = 0; i < count; ++i) logged += run.Log({{"loss", i}, {"pid", getpid()}});
  return logged;
}

bool Durable(ranklog::FlushResult result) { return result == ranklog::FlushResult::kDurable; }

int crowded_forks = 0;

// A child inherits the locks of threads that do not exist in it. So only the threads of Forks() and
// the sender may run at a fork, and none of gRPC's.
void CountThreads() {
  DIR* const tasks = opendir("/proc/self/task");
  int threads = 0;
  while (const dirent* const entry = readdir(tasks)) threads += entry->d_name[0] != '.';
  closedir(tasks);
  crowded_forks += threads > 3;
}

// Forks `count` children while another thread logs. Every second child logs; one in four also waits
// until its rows are durable. Prints the total number of rows. Returns 0 if every child succeeded.
int Forks(ranklog::Run& run, int count) {
  std::atomic<bool> stop = false;
  std::atomic<long> logged = 0;
  std::thread busy([&] {
    while (!stop) {
      logged += LogRows(run, 20);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  int failed = 0;
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i % 2 == 0) exit(0);
      if (LogRows(run, 5) != 5) exit(10);
      if (i % 4 == 1 && !Durable(run.Flush(std::chrono::seconds(30)))) exit(11);
      exit(0);
    }
    if (child < 0) return 12;
    children.push_back(child);
    if (i % 2 == 1) logged += 5;
    if (children.size() == 4) {
      for (pid_t pid : children) {
        int status = 0;
        waitpid(pid, &status, 0);
        failed += status != 0;
      }
      children.clear();
    }
  }
  stop = true;
  busy.join();
  const bool durable = Durable(run.Finish(0));
  printf("%ld rows, %d failed, %d forks beside gRPC, %s\n", logged.load(), failed, crowded_forks,
         durable ? "durable" : "spooled");
  return failed == 0 && crowded_forks == 0 && durable ? 0 : 1;
}

// Prints the number of descriptors in the fullest epoll set of this process, while it and a forked
// child are connected. In gRPC's set these are a wakeup and a connection.
int PollsBesideChild(ranklog::Run& run) {
  int to_parent[2], to_child[2];
  if (pipe(to_parent) != 0 || pipe(to_child) != 0) return 12;
  char byte = 0;
  const auto log = [&] {
    return LogRows(run, 5) == 5 && Durable(run.Flush(std::chrono::seconds(30)));
  };
  if (!log()) return 14;  // so that gRPC has a set at the fork
  const pid_t child = fork();
  if (child == 0) {
    close(to_child[1]);
    if (!log() || write(to_parent[1], &byte, 1) != 1) _exit(11);
    _exit(read(to_child[0], &byte, 1) == 0 ? 0 : 13);  // until the parent has looked
  }
  const bool durable = log();
  close(to_parent[1]);
  const bool child_connected = read(to_parent[0], &byte, 1) == 1;
  long most = 0;
  for (int fd = 0; fd < 100; ++fd) {
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd));
    long targets = 0;
    for (std::string line; std::getline(info, line);) targets += line.rfind("tfd:", 0) == 0;
    most = std::max(most, targets);
  }
  close(to_child[1]);
  int status = 0;
  waitpid(child, &status, 0);
  printf("%ld\n", most);
  return durable && child_connected && status == 0 ? 0 : 1;
}

// Logs `count` rows while signals arrive as fast as the kernel sends them. The handler of each
// signal logs a row too.
int LogsInHandlers(ranklog::Run& run, long count) {
  static ranklog::Run* const handled = &run;
  static volatile long in_handlers = 0, refused = 0;
  signal(SIGUSR1, [](int) {
    if (handled->Log({{"loss", -1}, {"pid", -1}})) {
      in_handlers = in_handlers + 1;
    } else {
      refused = refused + 1;
    }
  });
  long logged = LogRows(run, 1);
  std::atomic<bool> stop = false;
  std::thread signals([&, thread = pthread_self()] {
    while (!stop) pthread_kill(thread, SIGUSR1);
  });
  while (logged < count || refused == 0) {
    logged += LogRows(run, 1000);
    if (!Durable(run.Flush(std::chrono::seconds(30)))) return 4;
  }
  stop = true;
  signals.join();
  const bool durable = Durable(run.Finish(0));
  const ranklog::Stats stats = run.stats();
  printf("%ld rows, %s\n", logged + in_handlers, durable ? "durable" : stats.last_error.c_str());
  const bool counted = stats.lost_invalid == static_cast<uint64_t>(refused);
  return durable && counted ? 0 : 3;
}

// The stack of a cancelled thread is unwound by force, which AddressSanitizer does not notice. This
// clears its marks on those frames before the thread's destructors run.
struct ForgottenFrames {
  ~ForgottenFrames() {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
    constexpr size_t kDeep = 512 << 10, kCaller = 1 << 10;  // of a stack of 8 MiB
    auto* const here = static_cast<char*>(__builtin_frame_address(0));
    __asan_unpoison_memory_region(here - kDeep, kDeep + kCaller);
#endif
  }
};

// Starts threads that must end at their next cancellation point, which our calls do not contain.
// Prints how many rows were taken.
int CancelsThreads(ranklog::Run& run, int count) {
  std::atomic<long> taken = 0, ended = 0;
  for (int i = 0; i < count; ++i) {
    std::thread([&, i] {
      pthread_cancel(pthread_self());
      taken += run.Log({{"cancelled", i}});         // makes or takes a ring
      thread_local ForgottenFrames before_its_end;  // destroyed before the ring
      static_cast<void>(before_its_end);
      run.Summary({{"cancelled", i}});
      if (i % 2 == 0) run.Flush(std::chrono::seconds(20));
      taken += run.Log({{"text", std::string(200'000, 'x')}});  // needs a larger ring
      ++ended;
      pthread_testcancel();
      --ended;
    }).join();
  }
  pthread_cancel(pthread_self());
  const bool durable = Durable(run.Finish(0));
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  printf("%ld rows\n", taken.load());
  return durable && ended == count ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "finish";
  const long count = argc > 2 ? atol(argv[2]) : 10;
  // Runs after the handler that Init() adds.
  if (how == "forks") pthread_atfork(CountThreads, nullptr, nullptr);
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  if (how == "forks") return Forks(run, static_cast<int>(count));
  if (how == "polls") return PollsBesideChild(run);
  if (how == "handlers") return LogsInHandlers(run, count);
  if (how == "cancelled") return CancelsThreads(run, static_cast<int>(count));
  const long logged = LogRows(run, count);
  if (how == "finish") {
    const bool durable = Durable(run.Finish(0));
    printf("%ld rows, %s\n", logged, durable ? "durable" : "spooled");
    return durable ? 0 : 3;
  }
  if (how == "flush") return Durable(run.Flush(std::chrono::seconds(20))) ? 0 : 3;
  if (how == "exit") exit(5);
  if (how == "_exit") _exit(6);
  if (how == "abort") abort();
  if (how == "throw") throw std::runtime_error("the training failed");
  if (how == "static") {
    static_run = std::move(run);
    return LogRows(static_run, 1) == 1 ? 0 : 1;
  }
  if (how == "thread_exit") {
    std::thread([] { exit(7); }).join();
  }
  return 0;
}
