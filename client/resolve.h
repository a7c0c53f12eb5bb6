// Fills in what settings leave open.

#ifndef CLIENT_RESOLVE_H_
#define CLIENT_RESOLVE_H_

#include <string>
#include <string_view>
#include <vector>

#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// 1 to 128 of A-Z a-z 0-9 _ - . and not dots alone.
bool IsRunId(std::string_view text);

// `settings` with something usable in place of what Validate() refuses, the same on all ranks of a
// job, so that the rows are kept. In validate.cc. A key and an address of a tracker stay as they
// are: the run goes there, and waits until they are put right.
Settings Repair(Settings settings);

// What Validate() says of the rank and the world size.
std::vector<std::string> RankErrors(const Settings& settings);

// 8 of a-z 0-9, the same for the same text.
std::string HashName(std::string_view text);

// The same, of nothing that anybody else has.
std::string RandomName();

// `settings` are valid, or repaired. Ranks, run id, group, project, host, node and program are set
// in what it returns. All ranks of a job come to the same run id, as far as their launcher lets
// them.
Settings Resolve(Settings settings);

// What a stream of the run says first: resolved settings and identity. The thread is 0.
v1::Hello MakeHello(const Settings& resolved);

}  // namespace ranklog::internal

#endif  // CLIENT_RESOLVE_H_
