#include "service/cli/doctor/peer_check.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/environment.h"
#include "service/base/host_port.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/base/text/shell_word.h"
#include "service/cli/node/peer_setup.h"
#include "service/peer/tls/peer_key.h"
#include "service/peer/tls/probe.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kExpiresSoon = absl::Hours(24 * 60);

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "HOST";
}

std::string KeyFileOf(const absl::optional<DaemonStatus>& daemon) {
  const bool known = daemon && daemon->peer && !daemon->peer->key_file.empty();
  return known ? daemon->peer->key_file : PeerKeyFile();
}

}  // namespace

std::vector<Finding> CheckPeerSetup(const absl::optional<DaemonStatus>& daemon) {
  const std::string path = KeyFileOf(daemon);
  if (path.empty()) return {};
  const auto key = peer::PeerKey::Load(path);
  const bool named = !EnvironmentVariable("RANKLOG_PEER_KEY").empty();
  if (absl::IsNotFound(key.status()) && !named &&
      !(daemon && daemon->peer && !daemon->peer->error.empty())) {
    return {};
  }
  Finding finding{"peer key", {{"path", path}, {"usable", key.ok()}}, Printable(path), ""};
  if (!key.ok()) {
    finding.advice = Printable(std::string(key.status().message()));
    if (absl::IsNotFound(key.status())) {
      absl::StrAppend(&finding.advice, "; run: ranklog peer-key ", Printable(ShellWord(path)),
                      ", or copy the file of another node");
    }
    return {std::move(finding)};
  }
  const absl::Time now = absl::Now();
  const KeyUse use = UseOfKey(daemon, key->fingerprint());
  finding.data["fingerprint"] = key->fingerprint();
  finding.data["expires"] = absl::ToUnixSeconds(key->expires());
  absl::StrAppend(&finding.text, ", ", key->fingerprint(), ", valid until ",
                  TimeText(absl::ToUnixMicros(key->expires())));
  if (key->expires() < now + kExpiresSoon) {
    finding.advice =
        absl::StrCat(key->expires() < now ? "the key has expired" : "the key expires soon",
                     "; remove it, run `ranklog peer-key`, copy it to all nodes, and "
                     "start their daemons again");
  } else if (use.problem) {
    finding.advice = use.text;
  } else {
    absl::StrAppend(&finding.text, "; ", use.text);
  }
  std::vector<Finding> findings = {std::move(finding)};
  for (const DaemonStatus::Peer::Link& link :
       daemon && daemon->peer ? daemon->peer->links : std::vector<DaemonStatus::Peer::Link>()) {
    if (!link.is_stuck()) continue;
    findings.push_back({"peer rows",
                        {{"home", link.home}, {"waiting_rows", link.waiting_rows}},
                        Counted(link.waiting_rows, "row") + " wait for rank 0's node",
                        absl::StrCat("they have waited for ", StuckText(link))});
  }
  const std::string address = daemon && daemon->peer ? daemon->peer->address : "";
  const auto listens = ParseHostPort(address, 0);
  if (!listens) return findings;
  findings.push_back({"peer port",
                      {{"address", address}},
                      absl::StrCat(Printable(address),
                                   "; whether a firewall lets other nodes through is only seen "
                                   "there: ranklog doctor --peer ",
                                   Printable(HostPort{HostName(), listens->port}.Text())),
                      ""});
  return findings;
}

Finding CheckPeer(const std::string& address, const absl::optional<DaemonStatus>& daemon) {
  const auto wanted = ParseHostPort(address, PeerPort());
  Finding finding{"peer", {{"address", address}, {"trusted", false}}, Printable(address), ""};
  const std::string path = KeyFileOf(daemon);
  const auto key =
      path.empty() ? absl::NotFoundError("this node has no key file") : peer::PeerKey::Load(path);
  if (!key.ok()) {
    finding.advice = Printable(std::string(key.status().message()));
    if (absl::IsNotFound(key.status())) {
      finding.advice =
          absl::StrCat("this node has no key to connect with", path.empty() ? "" : ": ",
                       Printable(path), "; copy the file of that node");
    }
    return finding;
  }
  if (!wanted) {
    finding.advice = CheckPeerAddress(address);
    return finding;
  }
  const auto probed = peer::Probe(*key, *wanted, absl::Now());
  if (!probed.ok()) {
    finding.advice = Printable(std::string(probed.status().message()));
    return finding;
  }
  finding.data["trusted"] = true;
  finding.data["protocol"] = probed->protocol;
  finding.data["seconds"] = absl::ToDoubleSeconds(probed->took);
  finding.text = absl::StrCat("the daemon at ", probed->address, " has the same key (",
                              probed->protocol, ", ", DurationText(probed->took), ")");
  return finding;
}

std::string CheckPeerAddress(const std::string& text) {
  return ParseHostPort(text, PeerPort()) ? "" : "not an address; use HOST or HOST:PORT";
}

}  // namespace ranklog::cli
