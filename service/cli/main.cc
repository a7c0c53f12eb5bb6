// ranklog: looks at what ranklogd keeps, and takes it elsewhere.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "service/cli/command.h"

namespace {

constexpr int kDidNotWork = 1;
constexpr int kWrongUsage = 2;

constexpr char kFooter[] = R"(
Examples:
  ranklog status
  ranklog runs
  ranklog show latest
  ranklog tail latest
  ranklog export latest --format csv --output run.csv
  ranklog sync
  ranklog verify latest
  ranklog doctor

All of them work with and without a running daemon. `ranklog COMMAND --help` says more.
Exit code: 0 done, 1 it did not work, 2 wrong usage.)";

constexpr char kGlobalFlags[] = R"(

Every command also takes --state-dir DIR or --address unix:PATH; see `ranklog --help`.)";

void AddGlobalFlags(CLI::App& app, ranklog::cli::Globals& globals) {
  CLI::Option* state_dir =
      app.add_option("--state-dir", globals.state_dir,
                     "the directory of the store; else $RANKLOG_STATE_DIR, that of the daemon at "
                     "$RANKLOG_ADDRESS, $XDG_STATE_HOME/ranklog or ~/.local/state/ranklog")
          ->type_name("DIR");
  app.add_option(
         "--address", globals.address,
         "the running daemon whose store is meant, e.g. unix:/run/ranklog/1000/ranklogd.sock")
      ->type_name("unix:PATH")
      ->excludes(state_dir)
      ->check([](const std::string& text) {
        return text.rfind("unix:", 0) == 0 ? "" : "an address has the form unix:PATH";
      });
}

std::string AllCommands(CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

// Prints what was asked for (--help, --version), or what is wrong with the command line. Of one
// without a command, or with one that there is not, CLI11 says only that a "subcommand" is
// required.
int Refuse(CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const bool no_command =
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && app.get_subcommands().empty();
  if (!no_command) {
    std::string command = "ranklog";
    for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
    std::cerr << command << ": " << error.what() << "; `" << command << " --help` says more\n";
    return kWrongUsage;
  }
  const std::vector<std::string> words = app.remaining();
  std::string what = "no command was given";
  if (!words.empty()) {
    what = (words[0].rfind("-", 0) == 0 ? "there is no option '" : "there is no command '") +
           words[0] + "'";
  }
  std::cerr << "ranklog: " << what << ". The commands are " << AllCommands(app)
            << "; `ranklog --help` says what they do.\n";
  return kWrongUsage;
}

}  // namespace

int main(int argc, char** argv) {
  ranklog::cli::Globals globals;
  ranklog::cli::Action action;
  CLI::App app("Looks at the runs that ranklogd keeps on this node, and takes them elsewhere.",
               "ranklog");
  app.set_version_flag("--version", "ranklog " RANKLOG_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();  // inherited: the global flags may also stand after the subcommand
  AddGlobalFlags(app, globals);
  ranklog::cli::AddStatus(app, globals, action);
  ranklog::cli::AddRuns(app, globals, action);
  ranklog::cli::AddShow(app, globals, action);
  ranklog::cli::AddTail(app, globals, action);
  ranklog::cli::AddExport(app, globals, action);
  ranklog::cli::AddSync(app, globals, action);
  ranklog::cli::AddVerify(app, globals, action);
  ranklog::cli::AddDead(app, globals, action);
  ranklog::cli::AddDoctor(app, globals, action);
  ranklog::cli::AddRecover(app, action);
  for (CLI::App* command : app.get_subcommands({})) {
    command->footer(command->get_footer() + kGlobalFlags);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Refuse(app, error);
  }

  absl::Status status = action();
  if (status.ok() && !std::cout.flush()) status = absl::UnavailableError("cannot write the output");
  if (status.ok()) return 0;
  std::cout.flush();
  std::cerr << "ranklog: " << status.message()
            << (absl::IsDataLoss(status) ? "; `ranklog doctor` says what to do" : "") << "\n";
  return kDidNotWork;
}
