// Fills in the settings that the user left open.

#ifndef CLIENT_SETTINGS_RESOLVE_H_
#define CLIENT_SETTINGS_RESOLVE_H_

#include <string>
#include <string_view>
#include <vector>

#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// 1 to 128 characters of A-Z a-z 0-9 _ - . and not dots alone.
bool IsRunId(std::string_view text);

// `settings` with a usable replacement for each value that Validate() rejects. The result is the
// same on all ranks of a job, so that the rows are kept. Defined in validate.cc. A tracker's key
// and address stay unchanged: the run goes to that tracker, and waits until the user corrects them.
Settings Repair(Settings settings);

// The errors of Validate() about the rank and the world size.
std::vector<std::string> RankErrors(const Settings& settings);

// 8 characters of a-z 0-9; equal for equal texts.
std::string HashName(std::string_view text);

// A random name of the same form, different in every call.
std::string RandomName();

// Fills in ranks, run id, group, project, host, node and program. `settings` must be valid or
// repaired. All ranks of a job get the same run id, as far as their launcher makes that possible.
Settings Resolve(Settings settings);

// The first message of a stream of the run, from resolved settings and the identity. The thread is
// 0.
v1::Hello MakeHello(const Settings& resolved);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_RESOLVE_H_
