// A rank that a signal interrupts in one of our calls. The handler calls exit(3), like that of many
// trainers, so the call never continues.
//
//   interrupted_rank CALL DELAY_US GO
//
// CALL: finish, flush, log, stats, fork, or thread (the main thread is in Finish(), and the signal
// goes to another thread). Logs 100 rows, gives a daemon 10 s to take them unless GO exists, prints
// "ready", and waits for the file GO. Then it makes the call, repeatedly if possible, until the
// signal comes after DELAY_US. Prints how many rows Log() has taken.

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <string>
#include <thread>

#include "ranklog/ranklog.h"

namespace {

std::atomic<long> taken = 0;

void OnSignal(int) {
  char text[32];
  char* const end = std::to_chars(text, text + sizeof text - 1, taken.load()).ptr;
  *end = '\n';
  static_cast<void>(!write(1, text, static_cast<size_t>(end + 1 - text)));
  exit(3);
}

void LogRow(ranklog::Run& run) {
  static long step = 0;
  if (run.Log({{"loss", step}}, step)) ++taken;
  ++step;
}

void SignalAfter(long delay_us) {
  const itimerval timer = {{0, 0}, {delay_us / 1'000'000, delay_us % 1'000'000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void HoldOffSignal() {
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
}

void Call(ranklog::Run& run, const std::string& call) {
  if (call == "finish" || call == "thread") {
    run.Finish(0);
    while (true) pause();
  } else if (call == "flush") {
    LogRow(run);
    run.Flush(std::chrono::milliseconds(300));
  } else if (call == "log") {
    LogRow(run);
  } else if (call == "stats") {
    run.stats();
  } else if (call == "fork") {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string call = argv[1];
  const char* const go = argv[3];
  signal(SIGALRM, OnSignal);
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  for (int i = 0; i < 100; ++i) LogRow(run);
  if (access(go, F_OK) != 0) run.Flush(std::chrono::seconds(10));
  static_cast<void>(!write(1, "ready\n", 6));
  while (access(go, F_OK) != 0) usleep(1000);
  if (call == "thread") {
    std::thread([] {
      while (true) pause();
    }).detach();
    HoldOffSignal();
  }
  SignalAfter(atol(argv[2]));
  while (true) Call(run, call);
}
