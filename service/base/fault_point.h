// Points at which a test kills the daemon.

#ifndef SERVICE_BASE_FAULT_POINT_H_
#define SERVICE_BASE_FAULT_POINT_H_

#include "absl/strings/string_view.h"

namespace ranklog {

// Does nothing unless the build has RANKLOG_FAULT_POINTS. Then RANKLOG_DIE_AT selects the point and
// the action:
//   commit:n        SIGKILL to this process when the point `commit` is passed for the n-th time
//   commit:n:11     the same with signal 11
//   commit:n:hang   the thread hangs at this point
void FaultPoint(absl::string_view name);

}  // namespace ranklog

#endif  // SERVICE_BASE_FAULT_POINT_H_
