// Rows that nobody has taken: they lie in the rings of ranks that are gone, and no daemon runs.

#ifndef SERVICE_CLI_LEFT_SPOOLS_H_
#define SERVICE_CLI_LEFT_SPOOLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/cli/command.h"
#include "service/model/session.h"

namespace ranklog::cli {

struct LeftSpool {
  std::string path;
  model::StreamKey key;  // its rank
  uint64_t rows = 0;     // that the store lacks; 0: the rank's end is all
};

// The rings without a living rank that a daemon of `state_dir` would take, and has not. For some
// seconds after a rank's death there may be one though a daemon runs.
std::vector<LeftSpool> FindLeftSpools(const Globals& globals, const std::string& state_dir);

// The same, but none where a daemon holds `state_dir` or answers where they look for theirs: it
// takes them.
std::vector<LeftSpool> FindUntakenSpools(const Globals& globals, const std::string& state_dir);

// Whether a daemon of another state directory answers where `state_dir`'s would: it takes them.
bool SpoolsAreOfAnotherDaemon(const Globals& globals, const std::string& state_dir);

// How many rows there are in them.
uint64_t LeftRows(const std::vector<LeftSpool>& left);

// "300 rows of rank 0 of gpt:job lie in a spool only". Not of none.
std::string LeftSpoolsText(const std::vector<LeftSpool>& left);

// What to do about those that nobody takes.
inline constexpr char kTakeLeftSpools[] =
    "no daemon runs, which would take them: `ranklog sync` does, and delivers";

// Does what a daemon does first: brings them into the store of `state_dir`, makes it if there is
// none, ends their streams and makes rows of them. The caller holds the lock. What cannot be read
// stays where it is. The errors are those of storage::Store::Open.
absl::Status TakeLeftSpools(const Globals& globals, const std::string& state_dir);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_LEFT_SPOOLS_H_
