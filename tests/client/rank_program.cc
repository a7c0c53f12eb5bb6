// A minimal trainer, linked with libranklog.so like a real one. It takes its settings from the
// environment.
//
//   rank_program HOW [N]     logs N rows, then ends as HOW says

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
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
