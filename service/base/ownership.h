// The owners of files and sockets that this user trusts, and directories that others can reach.

#ifndef SERVICE_BASE_OWNERSHIP_H_
#define SERVICE_BASE_OWNERSHIP_H_

#include <sys/types.h>
#include <unistd.h>

#include <string>

namespace ranklog {

// Root can act as this user anyway. v1::IsOwnDirectory() and v1::IsOwnFile() do not accept root's.
inline bool IsOursOrRoots(uid_t owner) { return owner == geteuid() || owner == 0; }

// What to do about a directory of this user that others can reach. It is chmod only for a directory
// that has nothing but Ranklog's files: others may need the rest, as in / or /etc.
std::string HowToKeepOthersOut(const std::string& dir);

}  // namespace ranklog

#endif  // SERVICE_BASE_OWNERSHIP_H_
