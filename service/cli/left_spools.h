// Rows that nobody has taken: they lie in the rings of ranks, or in the store without a run, and no
// daemon runs.

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
  bool lives = false;    // its rank, which sends them once a daemon answers
};

// The rings that a daemon of `state_dir` would take, and has not: those of dead ranks, and those of
// living ones with rows that the store lacks. While a daemon runs, living ranks have such now and
// then, and dead ones for some seconds.
std::vector<LeftSpool> FindSpools(const Globals& globals, const std::string& state_dir);

// The same, of dead ranks alone.
std::vector<LeftSpool> FindSpoolsOfTheDead(const Globals& globals, const std::string& state_dir);

// The same as the first, but none where a daemon holds `state_dir`, or listens where they look for
// theirs: it takes them.
std::vector<LeftSpool> FindUntakenSpools(const Globals& globals, const std::string& state_dir);

// Whether a daemon of another state directory listens where `state_dir`'s would: it takes them. Not
// for a `state_dir` whose own daemon hangs.
bool SpoolsAreOfAnotherDaemon(const Globals& globals, const std::string& state_dir);

// How many rows there are in them.
uint64_t LeftRows(const std::vector<LeftSpool>& left);

// "300 rows of rank 0 of gpt:job lie in a spool only", or "rank 0 of gpt:job still runs; 300 rows
// wait in its spool until a daemon takes them", or both. Not of none.
std::string LeftSpoolsText(const std::vector<LeftSpool>& left);

// What to do about those that nobody takes: a command.
std::string HowToTake(const Globals& globals, const std::string& state_dir,
                      const std::vector<LeftSpool>& left);

// "20 rows of job and job-2 are stored, but not in their runs yet", where no daemon holds `state_dir`
// that would make them. Empty: there are none.
std::string UnmadeRowsText(const std::string& state_dir);
inline constexpr char kHowToMakeThem[] =
    "no daemon runs: `ranklog sync` brings them there, and delivers";

// Says all of it on stderr, if there are any that nobody takes.
void WarnOfUntakenRows(const Globals& globals);

// Does what a daemon does first: brings them into the store of `state_dir`, makes it if there is
// none, ends their streams and makes rows of them. The caller holds the lock. What cannot be read
// stays where it is. The errors are those of storage::Store::Open.
absl::Status TakeLeftSpools(const Globals& globals, const std::string& state_dir);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_LEFT_SPOOLS_H_
