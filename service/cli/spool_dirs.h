// The spools of this user's ranks on this node.

#ifndef SERVICE_CLI_SPOOL_DIRS_H_
#define SERVICE_CLI_SPOOL_DIRS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ranklog::cli {

// Where they may lie: where the daemon of `state_dir` has seen some, $RANKLOG_SPOOL_DIR, and the
// standard places.
std::vector<std::string> SpoolDirs(const std::string& state_dir);

// Why no daemon of this version can read the ring at `path`: its layout or its protocol is of
// another. Empty if one can, or if that is not a ring.
std::string OtherVersion(const std::string& path);

// The paths of rings that were set aside, since they are damaged.
std::vector<std::string> DamagedRings(const std::string& state_dir);

// Removes the files of rings with these incarnations, also those that were set aside as damaged;
// but none that a rank still holds.
void RemoveRings(const std::string& state_dir, const std::set<uint64_t>& incarnations);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SPOOL_DIRS_H_
