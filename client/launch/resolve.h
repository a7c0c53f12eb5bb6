// Fills in the settings that the user left open.

#ifndef CLIENT_LAUNCH_RESOLVE_H_
#define CLIENT_LAUNCH_RESOLVE_H_

#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// Fills in ranks, run id, group, project, host, node and program, and makes the directories
// absolute. `settings` must be valid or repaired. All ranks of a job get the same run id, as far as their launcher makes that possible.
Settings Resolve(Settings settings);

// The first message of a stream of the run, from resolved settings and the identity. The thread is
// 0.
v1::Hello MakeHello(const Settings& resolved);

}  // namespace ranklog::internal

#endif  // CLIENT_LAUNCH_RESOLVE_H_
