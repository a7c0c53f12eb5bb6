// ranklog: shows what ranklogd stores, and exports or delivers it.

#include <string>

#include "service/cli/command.h"
#include "service/cli/command_line.h"

namespace {

constexpr ranklog::cli::ProgramTexts kTexts = {
    .name = "ranklog",
    .version = "ranklog " RANKLOG_VERSION,
    .help = "Looks at the runs that ranklogd keeps on this node, and takes them elsewhere.",
    .footer = R"(
Examples:
  ranklog status
  ranklog runs
  ranklog show latest
  ranklog tail latest
  ranklog export latest --format csv --output run.csv
  ranklog sync
  ranklog verify latest
  ranklog rm old-run
  ranklog prune --dry-run
  ranklog doctor
  ranklog login

All of them work with and without a running daemon. `ranklog COMMAND --help` says more.
Exit code: 0 done, 1 it did not work, 2 wrong usage.)",
    .command_footer = R"(

Every command also takes --state-dir DIR or --address unix:PATH; see `ranklog --help`.)"};

std::string CheckAddress(const std::string& text) {
  return text.rfind("unix:", 0) == 0 ? "" : "an address has the form unix:PATH";
}

}  // namespace

int main(int argc, char** argv) {
  ranklog::cli::Globals globals;
  ranklog::cli::Program program(kTexts, globals);
  program.options().Add(
      "--state-dir", &globals.state_dir,
      "the directory of the store; else $RANKLOG_STATE_DIR, that of the daemon which a rank would "
      "find, or the first with a store of /var/lib/ranklog/UID, $XDG_STATE_HOME/ranklog or "
      "~/.local/state/ranklog, and "
      "/var/tmp/ranklog-UID",
      {.type = "DIR"});
  program.options().Add(
      "--address", &globals.address,
      "the running daemon whose store is meant, e.g. unix:/run/ranklog/1000/ranklogd.sock",
      {.type = "unix:PATH", .check = CheckAddress, .excludes = "--state-dir"});
  ranklog::cli::AddStatus(program);
  ranklog::cli::AddRuns(program);
  ranklog::cli::AddShow(program);
  ranklog::cli::AddTail(program);
  ranklog::cli::AddExport(program);
  ranklog::cli::AddSync(program);
  ranklog::cli::AddVerify(program);
  ranklog::cli::AddDead(program);
  ranklog::cli::AddRemove(program);
  ranklog::cli::AddPrune(program);
  ranklog::cli::AddDoctor(program);
  ranklog::cli::AddRecover(program);
  ranklog::cli::AddStop(program);
  ranklog::cli::AddDaemonLog(program);
  ranklog::cli::AddLogin(program);
  ranklog::cli::AddLogout(program);
  return program.Main(argc, argv);
}
