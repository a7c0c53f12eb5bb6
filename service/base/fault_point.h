// Places where a test has the daemon die: FAULT_POINT("commit") kills the process (SIGKILL) when it
// is passed for the n-th time, if RANKLOG_DIE_AT is commit:n. Nothing at all unless the build has
// RANKLOG_FAULT_POINTS.

#ifndef SERVICE_BASE_FAULT_POINT_H_
#define SERVICE_BASE_FAULT_POINT_H_

#ifdef RANKLOG_FAULT_POINTS

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace ranklog {

inline void PassFaultPoint(const char* name) {
  struct Wanted {
    std::string name;
    std::atomic<int> left{0};
  };
  static Wanted* const wanted = []() -> Wanted* {
    const char* const text = getenv("RANKLOG_DIE_AT");
    if (text == nullptr) return nullptr;
    auto* made = new Wanted;  // for as long as the process lives
    made->name = text;
    const size_t colon = made->name.find(':');
    made->left = colon == std::string::npos ? 1 : atoi(made->name.c_str() + colon + 1);
    made->name.resize(std::min(colon, made->name.size()));
    return made;
  }();
  if (wanted != nullptr && wanted->name == name && --wanted->left == 0) raise(SIGKILL);
}

}  // namespace ranklog

#define FAULT_POINT(name) ::ranklog::PassFaultPoint(name)
#else
#define FAULT_POINT(name) static_cast<void>(0)
#endif

#endif  // SERVICE_BASE_FAULT_POINT_H_
