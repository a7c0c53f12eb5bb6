// The subcommands of `ranklog`, and the code that they share. Each subcommand is in the file of its
// name.

#ifndef SERVICE_CLI_COMMAND_H_
#define SERVICE_CLI_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cli/command_line.h"
#include "service/cli/node/globals.h"

namespace ranklog::model {
struct Run;
}
namespace ranklog::storage {
class StoreReader;
}

namespace ranklog::cli {

// Waits up to two seconds in all for runs whose ranks ended at most some seconds ago, while a
// daemon still makes their last rows. Rereads the runs that it waited for. Costs one query for each
// running run, and nothing else if no wait is needed.
absl::Status AwaitEnds(const Globals& globals, storage::StoreReader& reader,
                       std::vector<model::Run>* runs);
// The same for one run. First waits up to kDaemonTakes, while a daemon has yet to store what dead
// ranks of the run left in their spools. Returns the run's new state.
absl::StatusOr<model::Run> AwaitEnd(const Globals& globals, storage::StoreReader& reader,
                                    const model::Run& run);

// Waits up to kDaemonTakes while a daemon has yet to take the ring of a rank that died before it
// attached: the store may lack its run.
void AwaitNewRuns(const Globals& globals);

// RUN and --project of the subcommands for one run.
struct RunArgument {
  std::string text;
  std::string project;

  void AddTo(Options& options);
  // The selected run; see SelectRun() for the errors. Waits like AwaitNewRuns() and AwaitEnd(), so
  // that `./train && ranklog show latest` shows the whole run.
  absl::StatusOr<model::Run> Find(const Globals& globals, storage::StoreReader& reader) const;
};

// Runs the command of `ranklog exec`, and returns its exit code, or ends by its signal.
int ExecMain(const std::vector<std::string>& command);

// Each adds its subcommand to `program`.
void AddStatus(Program& program);
void AddRuns(Program& program);
void AddShow(Program& program);
void AddTail(Program& program);
void AddExport(Program& program);
void AddSync(Program& program);
void AddVerify(Program& program);
void AddArtifacts(Program& program);
void AddExec(Program& program);
void AddLogs(Program& program);
void AddUi(Program& program);
void AddDead(Program& program);
void AddRemove(Program& program);
void AddPrune(Program& program);
void AddDoctor(Program& program);
void AddRecover(Program& program);
void AddStop(Program& program);
void AddDaemonLog(Program& program);
void AddLogin(Program& program);
void AddLogout(Program& program);
void AddPeerKey(Program& program);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_COMMAND_H_
