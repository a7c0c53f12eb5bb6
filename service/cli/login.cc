// `ranklog login` checks a key and stores it where daemons look. `ranklog logout` removes it there.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/output/terminal.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/curl_transport.h"
#include "service/deliver/http/machine/netrc.h"
#include "service/deliver/http/url.h"

namespace ranklog::cli {
namespace {

constexpr char kLoginFooter[] = R"(
The key is read from standard input, so that it does not appear in an argument list; type it (no echo) or
redirect a file. It is stored in ~/.config/ranklog/credentials, for its server.

Examples:
  ranklog login
  ranklog login < key.txt
  ranklog login --base-url https://wandb.example.com
  ranklog login --no-check < key.txt     # if the server is not reachable)";

constexpr char kLogoutFooter[] = R"(
Runs that need the key wait until there is another one.

Examples:
  ranklog logout
  ranklog logout --base-url https://wandb.example.com)";

struct LoginFlags {
  std::string tracker = deliver::UsualDestination().kind();
  std::string base_url;
  std::string user;
  std::string project;
  bool no_check = false;

  const deliver::Destination& destination() const { return *deliver::FindDestination(tracker); }
  // The server of the flag, or of the destination's variable; else the public one.
  absl::StatusOr<std::string> Server() const {
    const std::string variable = destination().VariableOf(destination().words().url_setting);
    return destination().CheckUrl(base_url.empty() ? EnvironmentVariable(variable.c_str())
                                                   : base_url);
  }
};

// Terminal settings before ReadKey() disabled the echo, for the signal handler.
termios typed_with{};

void EchoAgain(int signal) {
  tcsetattr(STDIN_FILENO, TCSANOW, &typed_with);
  raise(signal);  // the handler is used once: now the signal ends the process
}

// Disables the terminal's echo during its lifetime. The echo is also restored if Ctrl-C ends the
// process.
class SilentTerminal {
 public:
  SilentTerminal() : known_(tcgetattr(STDIN_FILENO, &typed_with) == 0) {
    if (!known_) return;
    struct sigaction once {};
    once.sa_handler = EchoAgain;
    once.sa_flags = static_cast<int>(SA_RESETHAND);
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      // An ignored signal, as under nohup, stays ignored.
      if (before_[i].sa_handler == SIG_DFL) sigaction(kSignals[i], &once, nullptr);
    }
    termios silent = typed_with;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  ~SilentTerminal() {
    if (!known_) return;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &typed_with);
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  SilentTerminal(const SilentTerminal&) = delete;
  SilentTerminal& operator=(const SilentTerminal&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const bool known_;
  std::array<struct sigaction, kSignals.size()> before_{};
};

absl::StatusOr<deliver::Credential> ReadKey(const LoginFlags& flags, const std::string& server) {
  std::string key;
  if (isatty(STDIN_FILENO) == 1) {
    const std::string page = flags.destination().KeyPage(server);
    std::cerr << "API key" << (page.empty() ? "" : " (see " + page + ")") << ": " << std::flush;
    {
      const SilentTerminal silent;
      std::getline(std::cin, key);
    }
    std::cerr << "\n";
  } else {
    std::getline(std::cin, key);
  }
  key = std::string(absl::StripAsciiWhitespace(key));
  if (key.empty()) {
    return absl::InvalidArgumentError("standard input has no key; run: ranklog login < FILE");
  }
  deliver::Credential credential = {.user = flags.user, .secret = std::move(key)};
  RETURN_IF_ERROR(flags.destination().CheckCredential(credential));
  return credential;
}

// The name of the account to which the key belongs.
absl::StatusOr<std::string> CheckKey(const deliver::Destination& destination,
                                     const std::string& server,
                                     const deliver::Credential& credential) {
  ASSIGN_OR_RETURN(const auto transport, deliver::CurlTransport::Create(
                                             deliver::CurlTransport::Options::FromEnvironment()));
  absl::StatusOr<std::string> name =
      destination.AccountOf(*transport, server, credential, deliver::HttpRequest().timeout);
  if (name.ok()) return name;
  if (absl::IsUnauthenticated(name.status())) {
    const std::string page = destination.KeyPage(server);
    return absl::PermissionDeniedError(
        absl::StrCat(server, " refused the key; it was not stored; ",
                     page.empty() ? "use a valid one" : "copy a valid one from " + page));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the check of the key at ", server, " failed: ", name.status().message(),
                   "; the key was not stored; --no-check stores it without a check"));
}

bool DaemonRuns(const Globals& globals) {
  const absl::StatusOr<std::string> state_dir = globals.StateDir();
  return state_dir.ok() && FindDaemon(*state_dir, globals.address).has_value();
}

absl::StatusOr<std::string> CredentialsFile(const Globals& globals) {
  if (const std::string config = EnvironmentVariable("XDG_CONFIG_HOME"); !config.empty()) {
    return config + "/ranklog/credentials";
  }
  if (const std::string home = EnvironmentVariable("HOME"); !home.empty()) {
    return home + "/.config/ranklog/credentials";
  }
  ASSIGN_OR_RETURN(const std::string state_dir, globals.StateDir());
  return state_dir + "/credentials";
}

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Replaces the file atomically, because a daemon may read it at the same time.
absl::Status Write(const std::string& path, const std::string& text) {
  std::error_code error;
  const std::filesystem::path dir = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(dir, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot create ", dir.string(), ": ", error.message()));
  const std::string fresh = absl::StrCat(path, ".", getpid());
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", fresh));
  errno = ENOSPC;  // for a short write
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int why = errno;
  close(fd);
  if (!written || rename(fresh.c_str(), path.c_str()) != 0) {
    const int reason = written ? errno : why;
    unlink(fresh.c_str());
    return absl::ErrnoToStatus(reason, absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

// `text` as a word of a netrc file: in quotes if it needs them.
std::string Word(const std::string& text) {
  if (text.find_first_of(" \t\"\\#") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

absl::Status Login(const Globals& globals, const LoginFlags& flags) {
  ASSIGN_OR_RETURN(const std::string server, flags.Server());
  ASSIGN_OR_RETURN(const deliver::Url url, deliver::ParseUrl(server));
  ASSIGN_OR_RETURN(const std::string path, CredentialsFile(globals));
  ASSIGN_OR_RETURN(const deliver::Credential credential, ReadKey(flags, server));
  std::string whose;
  if (!flags.no_check) {
    ASSIGN_OR_RETURN(const std::string name, CheckKey(flags.destination(), server, credential));
    whose = absl::StrCat(" of ", Printable(name));
  }
  const std::string project = flags.project.empty() ? "" : " account " + Word(flags.project);
  const std::string user = flags.user.empty() ? "user" : Word(flags.user);
  RETURN_IF_ERROR(
      Write(path, absl::StrCat("machine ", url.netloc, project, " login ", user, " password ",
                               Word(credential.secret), "\n",
                               deliver::NetrcWithout(ContentOf(path), url.netloc, flags.project))));
  std::cout << "the key" << whose << " for " << url.netloc << " is stored in " << path << "; "
            << (DaemonRuns(globals) ? "waiting runs continue within a minute"
                                    : "no daemon answers; to deliver waiting runs, run `" +
                                          globals.Command("sync") + "`")
            << "\n";
  return absl::OkStatus();
}

absl::Status Logout(const Globals& globals, const LoginFlags& flags) {
  ASSIGN_OR_RETURN(const std::string server, flags.Server());
  ASSIGN_OR_RETURN(const deliver::Url url, deliver::ParseUrl(server));
  ASSIGN_OR_RETURN(const std::string path, CredentialsFile(globals));
  const std::string before = ContentOf(path);
  const std::string after = deliver::NetrcWithout(before, url.netloc, flags.project);
  if (after == before) {
    return absl::NotFoundError(absl::StrCat("there is no key for ", url.netloc, " in ", path));
  }
  RETURN_IF_ERROR(Write(path, after));
  std::cout << "the key for " << url.netloc << " is no longer in " << path << "; "
            << flags.destination().words().key_variable
            << ", netrc and keys from ranks are unchanged\n";
  return absl::OkStatus();
}

// The destinations that need a key.
std::vector<std::string> KindsWithKey() {
  std::vector<std::string> kinds;
  for (const auto& destination : deliver::AllDestinations()) {
    if (destination->NeedsKey()) kinds.push_back(destination->kind());
  }
  return kinds;
}

// The options that say whose key is meant.
void AddAccount(Options& options, LoginFlags* flags) {
  options.Add("TRACKER", &flags->tracker, "the kind of the server", {.one_of = KindsWithKey()});
  options.Add("--base-url", &flags->base_url,
              "URL of the server; default: the tracker's variable, such as $WANDB_BASE_URL, else "
              "the public server",
              {.type = "URL"});
  options.Add("--project", &flags->project, "the key is only for this project", {.type = "NAME"});
}

}  // namespace

void AddLogin(Program& program) {
  auto [options, flags] = program.Add("login", "check a tracker's key and store it for the daemon",
                                      kLoginFooter, Login);
  AddAccount(options, &flags);
  options.Add("--user", &flags.user, "user of the key, if the server has users with passwords",
              {.type = "NAME"});
  options.Add("--no-check", &flags.no_check, "store the key without a check at the server");
}

void AddLogout(Program& program) {
  auto [options, flags] =
      program.Add("logout", "remove a key that `ranklog login` stored", kLogoutFooter, Logout);
  AddAccount(options, &flags);
}

}  // namespace ranklog::cli
