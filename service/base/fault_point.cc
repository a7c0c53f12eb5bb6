#include "service/base/fault_point.h"

#ifdef RANKLOG_FAULT_POINTS

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <sstream>
#include <string>

namespace ranklog {
namespace {

struct Wanted {
  std::string name;
  std::atomic<int> left{1};
  int signal = SIGKILL;  // 0: hang
};

// Null without RANKLOG_DIE_AT; never freed.
Wanted* ReadWanted() {
  const char* const text = getenv("RANKLOG_DIE_AT");
  if (text == nullptr) return nullptr;
  auto* const wanted = new Wanted;
  std::istringstream words(text);
  std::string left, signal;
  std::getline(words, wanted->name, ':');
  if (std::getline(words, left, ':')) wanted->left = atoi(left.c_str());
  if (std::getline(words, signal)) wanted->signal = signal == "hang" ? 0 : atoi(signal.c_str());
  return wanted;
}

}  // namespace

void FaultPoint(absl::string_view name) {
  static Wanted* const wanted = ReadWanted();
  if (wanted != nullptr && wanted->name == name && --wanted->left == 0) {
    while (wanted->signal == 0) pause();
    raise(wanted->signal);
  }
}

}  // namespace ranklog

#else

void ranklog::FaultPoint(absl::string_view) {}

#endif
