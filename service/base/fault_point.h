// Points at which a test kills the daemon. FAULT_POINT("commit") does nothing unless the build has
// RANKLOG_FAULT_POINTS. Then RANKLOG_DIE_AT selects the point and the action:
//   commit:n        SIGKILL to this process when the point is passed for the n-th time
//   commit:n:11     the same with signal 11
//   commit:n:hang   the thread hangs at this point

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
    auto* made = new Wanted;  // never freed
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
