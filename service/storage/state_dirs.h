// Where a store lies if nobody names its directory: the one list that the daemon and the command
// line go by.

#ifndef SERVICE_STORAGE_STATE_DIRS_H_
#define SERVICE_STORAGE_STATE_DIRS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/storage/store.h"

namespace ranklog::storage {

// $RANKLOG_STATE_DIR alone if it is set. Else, best first: /var/lib/ranklog/UID, if an administrator
// made it for this user, as the units of systemd and the prolog of Slurm do: a daemon that a rank
// starts when theirs is gone goes on with the same store; $XDG_STATE_HOME/ranklog or
// ~/.local/state/ranklog; then /var/tmp/ranklog-UID, which lies on the node itself and survives a
// reboot. Reads the environment: not thread-safe.
std::vector<std::string> DefaultStateDirs();

// Why a daemon that starts now would skip `dir`; OK if it would take it. Leaves nothing behind: where
// `dir` is missing, makes and removes a directory of another name above it.
absl::Status CheckUsable(const std::string& dir);

// A state directory and the right to write there.
struct LockedDir {
  std::string dir;
  StateLock lock;
  std::vector<std::string> skipped;  // why those before it cannot be used, a sentence for each
};

// Locks the first of `dirs` that this process can use. Skips a network file system, a directory
// that cannot be made, and one that a daemon of another container or node holds. For one that a
// `ranklog sync`, or another command of this node, holds it waits 8 s at most, and says so to that
// (StateWish).
//   kAlreadyExists       a process of this node holds it: another daemon, or still that command
//   kResourceExhausted   no space
//   kFailedPrecondition, kPermissionDenied   none can be used; the message has the reason for each
absl::StatusOr<LockedDir> LockFirst(const std::vector<std::string>& dirs);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_STATE_DIRS_H_
