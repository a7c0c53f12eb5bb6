// A rank that prints, and captures its console unless `ranklog exec` does.
//
//   console_rank finish|die|abort|exit|endless|kill-reader|signal-reader|leave-child|much|much-die|escapes|wait|linger
//
// finish   prints after Finish() too
// die      kills itself by SIGKILL right after its last words
// exit     calls exit() without Finish()
// linger   prints into stdio's buffer before Finish(), and lives on for a second after it
// kill-reader  kills the process that reads its console, and prints more than a pipe holds

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "ranklog/ranklog.h"

namespace {

bool SignalReader(const std::string& handle, int signal) {
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(process.path() / "cmdline");
    std::stringstream command;
    command << file.rdbuf();
    if (command.str().find("console-reader") == std::string::npos) continue;
    // The reader's handle has more after the same beginning.
    if (command.str().find(handle.substr(0, handle.size() / 2)) == std::string::npos) continue;
    return kill(atoi(process.path().filename().c_str()), signal) == 0;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string then = argv[1];
  puts("before Init()");
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  if (!run.CaptureConsole()) {
    fprintf(stderr, "not captured: %s\n", run.stats().last_error.c_str());
    return 4;
  }
  run.Log({{"loss", 0.5}}, 7);
  printf("stdout is %s\n", isatty(STDOUT_FILENO) == 1 ? "a terminal" : "no terminal");
  for (int percent = 0; percent <= 100; percent += 10) printf("\repoch 1: %d %%", percent);
  printf("\n\xc3\xa4 \xff.\n");
  fflush(stdout);
  fputs("a warning\n", stderr);
  if (then == "kill-reader") {
    fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (!SignalReader(run.Handle(), SIGKILL)) return 5;
    const std::string line(99, 'x');
    for (int i = 0; i < 5000; ++i) puts(line.c_str());
    puts("last words");
  }
  if (then == "signal-reader") {
    for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) {
      if (!SignalReader(run.Handle(), signal)) return 5;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // they would end it by then
    puts("last words");
  }
  if (then == "endless") {
    for (int i = 0; i < 100'000; ++i) printf("line %d\n", i);
    puts("last words");
  }
  if (then == "much" || then == "much-die") {
    const std::string line(300, 'x');
    for (int i = 0; i < 9000; ++i) puts(line.c_str());
    if (then == "much-die") puts("last words");
    fflush(stdout);
    if (then == "much-die") raise(SIGKILL);
  }
  if (then == "escapes") {
    puts("\x1b[31mred\x1b[0m text\x1b]52;c;ZXZpbA==\x07\x1b[?1049h");
    fflush(stdout);
  }
  if (then == "leave-child" && fork() == 0) {
    std::this_thread::sleep_for(std::chrono::seconds(20));
    _exit(0);
  }
  if (then == "linger") puts("last words");
  if (then == "wait") std::this_thread::sleep_for(std::chrono::seconds(2));
  if (then == "die" || then == "abort" || then == "leave-child") {
    fputs("last words\n", stderr);
    if (then == "abort") abort();
    raise(SIGKILL);
  }
  if (then == "exit") {
    puts("last words");
    exit(3);
  }
  const bool durable = run.Finish(0) == ranklog::FlushResult::kDurable;
  if (then == "linger") std::this_thread::sleep_for(std::chrono::seconds(1));
  puts("after Finish()");
  return durable ? 0 : 3;
}
