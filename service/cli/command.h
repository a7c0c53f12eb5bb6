// The subcommands of `ranklog`, and what they share. Each is in the file of its name.

#ifndef SERVICE_CLI_COMMAND_H_
#define SERVICE_CLI_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cli/command_line.h"

namespace ranklog::model {
struct Run;
}
namespace ranklog::storage {
class StoreReader;
}

namespace ranklog::cli {

// The flags of every subcommand.
struct Globals {
  std::string state_dir;  // empty: not given
  std::string address;    // empty: not given

  // The directory of the store: `state_dir`, else that of the daemon at `address`, else
  // $RANKLOG_STATE_DIR, else that of the daemon at $RANKLOG_ADDRESS or at a usual address, else the
  // first of storage::DefaultStateDirs() that has a store.
  //   kUnavailable  no daemon answers at `address`
  absl::StatusOr<std::string> StateDir() const;
  // The store, to be read.
  //   kNotFound          there is none; the message says what to do
  //   kPermissionDenied  it is another user's
  absl::StatusOr<std::unique_ptr<storage::StoreReader>> OpenStore() const;
};

// Waits for the runs whose ranks have all ended some seconds ago at most, while the daemon is still
// making their last rows: until they have ended, for two seconds in all. Reads those that it waited
// for anew. Costs a query for each run that is running, and nothing more where there is nothing to
// wait for.
absl::Status AwaitEnds(const Globals& globals, storage::StoreReader& reader,
                       std::vector<model::Run>* runs);
// The same for one: as it is then.
absl::StatusOr<model::Run> AwaitEnd(const Globals& globals, storage::StoreReader& reader,
                                    const model::Run& run);

// RUN and --project of the subcommands that are about one run.
struct RunArgument {
  std::string text;
  std::string project;

  void AddTo(Options& options);
  // The run that is meant; see SelectRun() for the errors. Waits for its end as AwaitEnd() does:
  // `./train && ranklog show latest` shows all of it.
  absl::StatusOr<model::Run> Find(const Globals& globals, storage::StoreReader& reader) const;
};

// Each adds its subcommand to `program`.
void AddStatus(Program& program);
void AddRuns(Program& program);
void AddShow(Program& program);
void AddTail(Program& program);
void AddExport(Program& program);
void AddSync(Program& program);
void AddVerify(Program& program);
void AddDead(Program& program);
void AddRemove(Program& program);
void AddPrune(Program& program);
void AddDoctor(Program& program);
void AddRecover(Program& program);
void AddStop(Program& program);
void AddDaemonLog(Program& program);
void AddLogin(Program& program);
void AddLogout(Program& program);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_COMMAND_H_
