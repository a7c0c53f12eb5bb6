// `ranklog peer-key` makes the key that the daemons of several nodes share, and shows it.

#include "service/peer/tls/peer_key.h"

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/base/text/shell_word.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/peer_setup.h"
#include "service/cli/output/json_text.h"

namespace ranklog::cli {
namespace {

constexpr char kFooter[] = R"(
The daemons of a job's nodes join the statistics of all ranks (strategy `main`). They trust each other by this file,
so each node needs the same one. Whoever can read it can send rows to your daemons: treat it like a password.
An existing file is never replaced.

FILE is $RANKLOG_PEER_KEY by default, else $XDG_CONFIG_HOME/ranklog/peer.key or ~/.config/ranklog/peer.key.

Examples:
  ranklog peer-key                     # once; with a home on all nodes, that is all
  ranklog peer-key --show              # fingerprint, end, and whether the daemon of this node uses it
  ranklog peer-key --show --json | jq -r .fingerprint
  ranklog peer-key /etc/ranklog/peer.key    # for ranklogd --peer-key)";

struct PeerKeyFlags {
  std::string file;
  bool show = false;
  bool json = false;
};

absl::optional<DaemonStatus> DaemonOf(const Globals& globals) {
  const absl::StatusOr<std::string> dir = globals.StateDir();
  return dir.ok() ? FindDaemon(*dir, globals.address) : absl::nullopt;
}

void PrintNext(const std::string& path, const absl::optional<DaemonStatus>& daemon) {
  const std::string word = Printable(ShellWord(path));
  const std::string dir = std::filesystem::path(path).parent_path().string();
  const std::string there =
      absl::StrCat("umask 077; mkdir -p ", ShellWord(dir), "; cat >", ShellWord(path));
  std::cout
      << "next:\n"
      << "- Give each node of your jobs this file, with mode 0600. A home that all nodes share "
         "has it already; else: ssh NODE "
      << Printable(ShellWord(there)) << " <" << word << "\n";
  if (path != PeerKeyFile()) {
    std::cout << "- It is not at the usual place, so start daemons with --peer-key " << word
              << " or RANKLOG_PEER_KEY=" << word << ".\n";
  }
  std::cout << "- Daemons that run read it when they start again"
            << (daemon ? "; on this node: ranklog stop" : "")
            << ". Ranks start a daemon if there is none.\n"
            << "- To see whether another node is reached: ranklog doctor --peer NODE\n";
}

absl::Status Run(const Globals& globals, const PeerKeyFlags& flags) {
  std::string path = flags.file.empty() ? PeerKeyFile() : flags.file;
  std::error_code error;
  if (!path.empty()) path = std::filesystem::absolute(path, error).string();
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot find this directory: ", error.message()));
  if (path.empty()) {
    return WrongUsage(
        "there is no default place for the key (HOME is unset, or RANKLOG_PEER_KEY=none); name a "
        "file: ranklog peer-key FILE");
  }
  if (!flags.show) RETURN_IF_ERROR(peer::PeerKey::Make(path, absl::Now()));
  absl::StatusOr<peer::PeerKey> key = peer::PeerKey::Load(path);
  if (absl::IsNotFound(key.status())) {
    return absl::NotFoundError(absl::StrCat("there is no key in ", path,
                                            "; to make one, run: ", "ranklog peer-key",
                                            flags.file.empty() ? "" : " " + ShellWord(path)));
  }
  RETURN_IF_ERROR(key.status());
  const absl::optional<DaemonStatus> daemon = DaemonOf(globals);
  const KeyUse use = UseOfKey(daemon, key->fingerprint());
  if (flags.json) {
    model::Json object = {{"path", path},
                          {"made", !flags.show},
                          {"fingerprint", key->fingerprint()},
                          {"expires", absl::ToUnixSeconds(key->expires())},
                          {"daemon", nullptr}};
    if (daemon && daemon->peer) {
      object["daemon"] = {{"pid", daemon->pid},
                          {"fingerprint", daemon->peer->fingerprint},
                          {"address", daemon->peer->address},
                          {"error", daemon->peer->error}};
    }
    std::cout << PrettyJson(object);
    return absl::OkStatus();
  }
  std::cout << (flags.show ? "" : "wrote ") << Printable(path) << "\n"
            << "fingerprint: " << key->fingerprint() << "\n"
            << "valid until: " << TimeText(absl::ToUnixMicros(key->expires()))
            << (key->expires() < absl::Now() ? " (expired)" : "") << "\n";
  if (flags.show) {
    std::cout << use.text << "\n";
  } else {
    PrintNext(path, daemon);
  }
  return absl::OkStatus();
}

}  // namespace

void AddPeerKey(Program& program) {
  auto [options, flags] =
      program.Add("peer-key", "make the key that the daemons of several nodes share", kFooter, Run);
  options.Add("FILE", &flags.file, "the file of the key", {.type = "FILE"});
  options.Add("--show", &flags.show, "show the key's fingerprint and use, and make none");
  options.Add("--json", &flags.json, "print an object, for programs");
}

}  // namespace ranklog::cli
