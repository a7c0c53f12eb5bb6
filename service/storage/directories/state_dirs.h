// The default locations of the store. The daemon and the command line both use this list.

#ifndef SERVICE_STORAGE_DIRECTORIES_STATE_DIRS_H_
#define SERVICE_STORAGE_DIRECTORIES_STATE_DIRS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/storage/directories/state_lock.h"

namespace ranklog::storage {

// The state directories to try. If $RANKLOG_STATE_DIR is set, only that one. Otherwise, best first:
//   /var/lib/ranklog/UID      if an administrator made it for this user, as the systemd units and
//                             the Slurm prolog do: if their daemon is gone, one that a rank starts
//                             continues with the same store
//   $XDG_STATE_HOME/ranklog, or ~/.local/state/ranklog
//   /var/tmp/ranklog-UID      on the node itself; survives a reboot
// Reads the environment: not thread-safe.
std::vector<std::string> DefaultStateDirs();

// OK if a daemon that starts now would use `dir`; else the reason. Leaves nothing behind: if `dir`
// is missing, makes and removes a directory of another name above it.
absl::Status CheckUsable(const std::string& dir);

// A state directory, and the lock that permits writes to it.
struct LockedDir {
  std::string dir;
  StateLock lock;
  std::vector<std::string> skipped;  // why earlier directories cannot be used, one sentence each
};

// Locks the first of `dirs` that this process can use. Skips a directory that is on a network file
// system, that cannot be made, or that a daemon of another container or node holds. If `ranklog
// sync` or another command of this node holds it, requests it from that command (StateRequest) and
// waits at most 8 s.
//   kAlreadyExists       a process of this node holds it: another daemon, or still that command
//   kResourceExhausted   no space
//   kFailedPrecondition, kPermissionDenied
//                        no directory can be used; the message has the reason for each
absl::StatusOr<LockedDir> LockFirst(const std::vector<std::string>& dirs);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DIRECTORIES_STATE_DIRS_H_
