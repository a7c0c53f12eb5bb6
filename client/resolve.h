// Fills in what settings leave open.

#ifndef CLIENT_RESOLVE_H_
#define CLIENT_RESOLVE_H_

#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// `settings` are valid. Ranks, run id, group, project, host, node and program are set in what it
// returns. All ranks of a job come to the same run id, as far as their launcher lets them.
Settings Resolve(Settings settings);

// What a stream of the run says first: resolved settings and identity. The thread is 0.
v1::Hello MakeHello(const Settings& resolved);

}  // namespace ranklog::internal

#endif  // CLIENT_RESOLVE_H_
