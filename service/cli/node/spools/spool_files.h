// The files of this user's spools: where they are, which of them cannot be read, and their removal.

#ifndef SERVICE_CLI_NODE_SPOOLS_SPOOL_FILES_H_
#define SERVICE_CLI_NODE_SPOOLS_SPOOL_FILES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ranklog::cli {

// Directories that may contain spools: those that the daemon of `state_dir` has recorded,
// $RANKLOG_SPOOL_DIR, and the standard places.
std::vector<std::string> SpoolDirs(const std::string& state_dir);

// Returns why no daemon of this version can read the ring at `path`: it has another layout or
// protocol version. Empty if this version can read it, or if it is not a ring.
std::string OtherVersion(const std::string& path);

// The paths of damaged rings that were set aside.
std::vector<std::string> DamagedRings(const std::string& state_dir);

// Removes the ring files with these incarnations, including damaged ones that were set aside. Keeps
// rings that a rank still holds.
void RemoveRings(const std::string& state_dir, const std::set<uint64_t>& incarnations);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_SPOOLS_SPOOL_FILES_H_
