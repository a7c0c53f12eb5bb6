// Places where a test has the daemon die: FAULT_POINT("commit") kills the process when it is passed
// for the n-th time, if RANKLOG_DIE_AT is commit:n; by SIGKILL, or by another signal that follows
// as a number: commit:n:11. By commit:n:hang the thread that passes it stays there instead. Nothing
// at all unless the build has RANKLOG_FAULT_POINTS.

#ifndef SERVICE_BASE_FAULT_POINT_H_
#define SERVICE_BASE_FAULT_POINT_H_

#ifdef RANKLOG_FAULT_POINTS

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <sstream>
#include <string>

namespace ranklog {

inline void PassFaultPoint(const std::string& name) {
  struct Wanted {
    std::string name;
    std::atomic<int> left{1};
    int signal = SIGKILL;
  };
  static Wanted* const wanted = []() -> Wanted* {
    const char* const text = getenv("RANKLOG_DIE_AT");
    if (text == nullptr) return nullptr;
    auto* made = new Wanted;  // for as long as the process lives
    std::istringstream words(text);
    std::string left, signal;
    std::getline(words, made->name, ':');
    if (std::getline(words, left, ':')) made->left = atoi(left.c_str());
    if (std::getline(words, signal)) made->signal = signal == "hang" ? 0 : atoi(signal.c_str());
    return made;
  }();
  if (wanted != nullptr && wanted->name == name && --wanted->left == 0) {
    while (wanted->signal == 0) pause();
    raise(wanted->signal);
  }
}

}  // namespace ranklog

#define FAULT_POINT(name) ::ranklog::PassFaultPoint(name)
#else
#define FAULT_POINT(name) static_cast<void>(0)
#endif

#endif  // SERVICE_BASE_FAULT_POINT_H_
