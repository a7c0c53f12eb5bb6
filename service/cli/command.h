// The subcommands of `ranklog`, and what they share. Each is in the file of its name.

#ifndef SERVICE_CLI_COMMAND_H_
#define SERVICE_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/model/run.h"
#include "service/storage/store.h"

namespace CLI {
class App;
}

namespace ranklog::cli {

// The flags of every subcommand.
struct Globals {
  std::string state_dir;  // empty: not given
  std::string address;    // empty: not given

  // The directory of the store: as given, or as the daemon at `address` says; else
  // $RANKLOG_STATE_DIR, else as the daemon at $RANKLOG_ADDRESS says, else the usual one.
  absl::StatusOr<std::string> StateDir() const;
  // The store, to be read.
  //   kNotFound          there is none; the message says what to do
  //   kPermissionDenied  it is another user's
  absl::StatusOr<std::unique_ptr<storage::StoreReader>> OpenStore() const;
};

// RUN and --project of the subcommands that are about one run.
struct RunArgument {
  std::string text;
  std::string project;

  void AddTo(CLI::App& command);
  absl::StatusOr<model::Run> Find(storage::StoreReader& reader) const;
};

// What CLI11's check() wants: an empty text if `text` is a duration above zero, else what to write.
std::string CheckDuration(const std::string& text);

// What to do once the command line is understood.
using Action = std::function<absl::Status()>;

// Each adds its subcommand to `app`, and sets `action` when that one is chosen. `globals` and
// `action` outlive `app`.
void AddStatus(CLI::App& app, const Globals& globals, Action& action);
void AddRuns(CLI::App& app, const Globals& globals, Action& action);
void AddShow(CLI::App& app, const Globals& globals, Action& action);
void AddTail(CLI::App& app, const Globals& globals, Action& action);
void AddExport(CLI::App& app, const Globals& globals, Action& action);
void AddSync(CLI::App& app, const Globals& globals, Action& action);
void AddVerify(CLI::App& app, const Globals& globals, Action& action);
void AddDead(CLI::App& app, const Globals& globals, Action& action);
void AddDoctor(CLI::App& app, const Globals& globals, Action& action);
void AddRecover(CLI::App& app, Action& action);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_COMMAND_H_
