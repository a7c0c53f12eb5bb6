// ranklog ui: the local page of a node's runs.

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/base/unique_fd.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/storage/store_reader.h"
#include "service/ui/server.h"
#include "service/ui/stores.h"

namespace ranklog::cli {
namespace {

constexpr int kUsualPort = 7275;  // so that bookmarks and `ssh -L` commands stay valid

constexpr char kUiFooter[] = R"(
Serves a page with the runs of this node, their curves, ranks, system metrics, console and delivery, until you press
Ctrl-C. It is live while a job runs, reads the store only, and works with and without a daemon or a network.

The page listens on 127.0.0.1 only. The printed link contains a token; without it, other users of this node
get nothing. On a desktop, the link is opened in the browser.

To open it from another computer, forward the port there, with the printed `ssh -L` command, and open the link.

Examples:
  ranklog ui
  ranklog ui --port 8080 --no-browser
  ranklog ui --state-dir /shared/job/node0 --state-dir /shared/job/node1
  ranklog show latest --html run.html    one run as a file, without a server)";

struct UiFlags {
  int port = 0;  // 0: not given
  bool no_browser = false;
  std::vector<std::string> state_dirs;
};

// A store, with what its daemon and the spools of its ranks know.
ui::StoreSource SourceOf(const Globals& globals, const std::string& dir) {
  return {dir, [globals, dir](storage::StoreReader& reader, absl::Span<query::RunReport> reports) {
            for (query::RunReport& report : reports) {
              if (report.run.state != model::RunState::kRunning) continue;
              const absl::optional<DaemonStatus> daemon = FindDaemon(dir, globals.address);
              if (!daemon) break;
              for (query::RunReport& each : reports) {
                const auto why = daemon->stopped_runs.find(each.run.id);
                if (why != daemon->stopped_runs.end()) each.stopped = why->second;
              }
              break;
            }
            return CountRowsInSpools(globals, dir, FindAllSpools(dir), reader, reports);
          }};
}

absl::StatusOr<std::unique_ptr<ui::Server>> Start(int port, std::vector<ui::StoreSource> sources) {
  if (port != 0) return ui::Server::Start({.port = port}, std::move(sources));
  auto server = ui::Server::Start({.port = kUsualPort}, sources);
  if (absl::IsUnavailable(server.status())) {
    return ui::Server::Start({.port = 0}, std::move(sources));
  }
  return server;
}

// Opens the page by a private file, because all users can read the arguments of a process.
void OpenBrowser(const std::string& url) {
  const bool desktop =
      !EnvironmentVariable("DISPLAY").empty() || !EnvironmentVariable("WAYLAND_DISPLAY").empty();
  const std::string dir = EnvironmentVariable("XDG_RUNTIME_DIR");
  if (!desktop || dir.empty() || !EnvironmentVariable("SSH_CONNECTION").empty()) return;
  std::string path = dir + "/ranklog-ui.html";
  unlink(path.c_str());
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string page =
      absl::StrCat("<meta http-equiv=\"refresh\" content=\"0;url=", url, "\">");
  if (!fd.valid() || write(fd.get(), page.data(), page.size()) < 0) return;
  std::string program = "xdg-open";
  char* const arguments[] = {program.data(), path.data(), nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&quiet, output, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = 0;
  posix_spawnp(&child, program.c_str(), &quiet, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&quiet);
}

// Whether the store can be read. Leaves no file in it.
absl::Status CheckStore(const Globals& globals) {
  ASSIGN_OR_RETURN(const std::string dir, globals.StateDir());
  if (storage::StoreReader::OpenWithoutTrace(dir).ok()) return absl::OkStatus();
  return globals.OpenStore().status();  // with the words for a user
}

absl::Status Ui(const Globals& globals, const UiFlags& flags) {
  std::vector<ui::StoreSource> sources;
  for (const std::string& dir : flags.state_dirs) {
    const Globals of{.state_dir = dir, .address = ""};
    RETURN_IF_ERROR(CheckStore(of));
    sources.push_back(SourceOf(of, dir));
  }
  if (sources.empty()) {
    RETURN_IF_ERROR(CheckStore(globals));
    ASSIGN_OR_RETURN(const std::string dir, globals.StateDir());
    globals.WarnOfOtherDaemon(dir);
    sources.push_back(SourceOf(globals, dir));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ui::Server> server, Start(flags.port, std::move(sources)));
  char host[256] = "HOST";
  gethostname(host, sizeof(host) - 1);
  std::cout << server->Url() << "\n"
            << "To open it from another computer, run there: ssh -L " << server->port()
            << ":127.0.0.1:" << server->port() << " " << Printable(host) << "\n"
            << "Ctrl-C ends it.\n";
  RETURN_IF_ERROR(FlushOutput());
  if (!flags.no_browser) OpenBrowser(server->Url());
  while (true) pause();  // a signal ends the process
}

}  // namespace

void AddUi(Program& program) {
  auto [options, flags] =
      program.Add("ui", "serve a local page of the runs, with curves and ranks", kUiFooter, Ui);
  options.Add("--port", &flags.port, "port of the page; default 7275, or a free one if it is taken",
              {.type = "N", .least = 1, .most = 65535});
  options.Add("--no-browser", &flags.no_browser, "only print the link");
  options.Add("--state-dir", &flags.state_dirs,
              "show the runs of this state directory; repeat it for several stores, such as those "
              "of the nodes of a job",
              {.type = "DIR"});
}

}  // namespace ranklog::cli
