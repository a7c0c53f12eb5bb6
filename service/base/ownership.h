// The owners of files and sockets that this user trusts.

#ifndef SERVICE_BASE_OWNERSHIP_H_
#define SERVICE_BASE_OWNERSHIP_H_

#include <sys/types.h>
#include <unistd.h>

namespace ranklog {

// Root can act as this user anyway. v1::IsOwnDirectory() and v1::IsOwnFile() do not accept root's.
inline bool IsOursOrRoots(uid_t owner) { return owner == geteuid() || owner == 0; }

}  // namespace ranklog

#endif  // SERVICE_BASE_OWNERSHIP_H_
