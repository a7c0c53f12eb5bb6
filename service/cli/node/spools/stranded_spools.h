// Rows in the rings of ranks that no daemon of a state directory takes.

#ifndef SERVICE_CLI_NODE_SPOOLS_STRANDED_SPOOLS_H_
#define SERVICE_CLI_NODE_SPOOLS_STRANDED_SPOOLS_H_

#include <string>
#include <vector>

#include "service/cli/node/globals.h"
#include "service/cli/node/spools/unread_spools.h"

namespace ranklog::cli {

// A ring that waits for no daemon of this state directory, so that no function of unread_spools.h
// finds it.
struct StrandedSpool {
  UnreadSpool ring;        // only its path is set if it is not known whose rows it holds
  std::string text;        // whose rows it holds, how many the store lacks, and why they stay
  std::string advice;      // empty: another version wrote it, and `text` says what to do
  bool elsewhere = false;  // its rank looks, or looked, for its daemon at another address
};

// Rings that cannot be read or were refused, and those of ranks that look for their daemon at
// another address where none runs. Waits up to 2 s where a rank is alive and was attached before.
std::vector<StrandedSpool> FindStrandedSpools(const Globals& globals, const std::string& state_dir);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_SPOOLS_STRANDED_SPOOLS_H_
