// ranklog: shows what ranklogd stores, and exports or delivers it.

#include <string.h>

#include <string>
#include <vector>

#include "service/base/standard_descriptors.h"
#include "service/cli/command.h"
#include "service/cli/command_line.h"
#include "service/cli/console/reader_main.h"

namespace {

constexpr ranklog::cli::ProgramTexts kTexts = {
    .name = "ranklog",
    .version = "ranklog " RANKLOG_VERSION,
    .help = "Shows, exports and delivers the runs that ranklogd stores on this node.",
    .footer = R"(
Examples:
  ranklog status
  ranklog runs
  ranklog show latest
  ranklog tail latest
  ranklog ui
  ranklog exec -- ./train
  ranklog logs latest
  ranklog export latest --format csv --output run.csv
  ranklog sync
  ranklog verify latest
  ranklog rm old-run
  ranklog prune --dry-run
  ranklog doctor
  ranklog login

All commands work with and without a running daemon. See `ranklog COMMAND --help`.
Exit code: 0 success, 1 failure, 2 wrong usage.)",
    .command_footer = R"(

Every command also takes --state-dir DIR or --address unix:PATH; see `ranklog --help`.)"};

std::string CheckAddress(const std::string& text) {
  return text.rfind("unix:", 0) == 0 ? "" : "not an address; use unix:PATH";
}

}  // namespace

int main(int argc, char** argv) {
  ranklog::OpenStandardDescriptors();
  if (argc > 1 && strcmp(argv[1], ranklog::cli::kConsoleReader) == 0) {
    return ranklog::cli::ConsoleReaderMain(argc, argv);
  }
  // Not by the parser: all words are the command's, also those that look like options.
  if (argc > 2 && strcmp(argv[1], "exec") == 0) {
    const int first = strcmp(argv[2], "--") == 0 ? 3 : 2;
    if (first < argc && (first == 3 || argv[2][0] != '-')) {
      return ranklog::cli::ExecMain(std::vector<std::string>(argv + first, argv + argc));
    }
  }
  ranklog::cli::Globals globals;
  ranklog::cli::Program program(kTexts, globals);
  program.options().Add(
      "--state-dir", &globals.state_dir,
      "state directory [$RANKLOG_STATE_DIR, else that of the daemon that a rank would find, "
      "else the first one with a store: /var/lib/ranklog/UID, $XDG_STATE_HOME/ranklog or "
      "~/.local/state/ranklog, /var/tmp/ranklog-UID]",
      {.type = "DIR"});
  program.options().Add(
      "--address", &globals.address,
      "use the store of the daemon at this address, e.g. unix:/run/ranklog/1000/ranklogd.sock",
      {.type = "unix:PATH", .check = CheckAddress, .excludes = "--state-dir"});
  ranklog::cli::AddStatus(program);
  ranklog::cli::AddRuns(program);
  ranklog::cli::AddShow(program);
  ranklog::cli::AddTail(program);
  ranklog::cli::AddExport(program);
  ranklog::cli::AddSync(program);
  ranklog::cli::AddVerify(program);
  ranklog::cli::AddArtifacts(program);
  ranklog::cli::AddExec(program);
  ranklog::cli::AddLogs(program);
  ranklog::cli::AddUi(program);
  ranklog::cli::AddDead(program);
  ranklog::cli::AddRemove(program);
  ranklog::cli::AddPrune(program);
  ranklog::cli::AddDoctor(program);
  ranklog::cli::AddRecover(program);
  ranklog::cli::AddStop(program);
  ranklog::cli::AddDaemonLog(program);
  ranklog::cli::AddLogin(program);
  ranklog::cli::AddLogout(program);
  ranklog::cli::AddPeerKey(program);
  return program.Main(argc, argv);
}
