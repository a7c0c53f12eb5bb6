// The flags of every subcommand, and the store that they choose.

#ifndef SERVICE_CLI_NODE_GLOBALS_H_
#define SERVICE_CLI_NODE_GLOBALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace ranklog::storage {
class StoreReader;
}

namespace ranklog::cli {

// The flags of every subcommand.
struct Globals {
  std::string state_dir;  // empty: not given
  std::string address;    // empty: not given

  // The state directory. The first match counts:
  //   1. `state_dir`
  //   2. the directory of the daemon at `address`
  //   3. $RANKLOG_STATE_DIR
  //   4. the directory of the daemon at $RANKLOG_ADDRESS or at a standard address
  //   5. the first of storage::DefaultStateDirs() that has a store, else the first of all
  //
  //   kUnavailable      no daemon answers at `address`
  //   kInvalidArgument  `address`, or $RANKLOG_ADDRESS if it is needed, is not an address
  absl::StatusOr<std::string> StateDir() const;
  // A subcommand for the same store, for messages: "ranklog --state-dir DIR sync RUN".
  std::string Command(const std::string& subcommand) const;
  // The command that uploads runs which stay on this node, to the usual destination. `runs` are
  // words of a command.
  std::string UploadCommand(const std::string& runs) const;
  // Warns on stderr if the ranks' daemon keeps another directory than StateDir(). Does nothing if
  // the user chose the directory for this command.
  void WarnOfOtherDaemon(const std::string& dir) const;
  // Opens the store for reading.
  //   kNotFound          there is no store; the message says what to do
  //   kPermissionDenied  it belongs to another user
  absl::StatusOr<std::unique_ptr<storage::StoreReader>> OpenStore() const;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_GLOBALS_H_
