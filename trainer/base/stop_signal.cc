#include "trainer/base/stop_signal.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "trainer/base/messages.h"

namespace ranklog::trainer {
namespace {

constexpr int64_t kSameNs = 2'000'000'000;

std::atomic<int> received_signal = 0;
std::atomic<int64_t> received_ns = 0;  // by the steady clock; 0: no signal yet
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "a signal handler uses them");

void OnStopSignal(int number) {
  const int saved = errno;
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
  int64_t first_ns = 0;
  if (received_ns.compare_exchange_strong(first_ns, now_ns)) {
    received_signal = number;
  } else if (now_ns - first_ns >= kSameNs) {
    signal(number, SIG_DFL);
    raise(number);  // takes effect when this function returns
  }
  errno = saved;
}

const std::string* interrupt_text = nullptr;  // read by the handler; set before it

void OnInterrupt(int number) {
  WriteFromHandler(interrupt_text->data(), interrupt_text->size());
  raise(number);  // takes effect when this function returns: SA_RESETHAND
}

}  // namespace

void PrintOnInterrupt(std::string text) {
  struct sigaction before = {};
  if (sigaction(SIGINT, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  const bool terminal = isatty(STDERR_FILENO) == 1;  // its progress line is unfinished
  interrupt_text = new std::string((terminal ? "\n" : "") + text);
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
}

StopSignal::StopSignal() {
  received_signal = 0;
  received_ns = 0;
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &old_term_);
  sigaction(SIGUSR1, &action, &old_usr1_);
}

StopSignal::~StopSignal() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
}

int StopSignal::received() const { return received_signal; }

}  // namespace ranklog::trainer
