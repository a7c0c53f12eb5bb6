#include "service/cli/node/peer_setup.h"

#include "absl/strings/str_cat.h"
#include "service/base/environment.h"
#include "service/base/host_port.h"
#include "service/base/peer_defaults.h"
#include "service/base/text/printable.h"

namespace ranklog::cli {
namespace {

constexpr char kNone[] = "none";

}  // namespace

std::string PeerKeyFile() {
  const std::string named = EnvironmentVariable("RANKLOG_PEER_KEY");
  if (named == kNone) return "";
  return named.empty() ? DefaultPeerKeyFile() : named;
}

int PeerPort() {
  const auto address = ParseHostPort(EnvironmentVariable("RANKLOG_PEER_LISTEN"), 0);
  return address ? address->port : DefaultPeerPort();
}

KeyUse UseOfKey(const absl::optional<DaemonStatus>& daemon, const std::string& fingerprint) {
  constexpr char kAgain[] = "; start it again, so that it reads the key";
  if (!daemon) return {false, "no daemon runs on this node; the next one uses it"};
  if (!daemon->peer) return {true, "the daemon of this node has an older version; start it again"};
  const DaemonStatus::Peer& peer = *daemon->peer;
  if (peer.key_file.empty() && peer.fingerprint.empty()) {
    return {false, "the daemon of this node does not talk to other nodes (--peer-key none)"};
  }
  if (peer.fingerprint.empty()) {
    const std::string why = peer.error.empty() ? kAgain : ": " + Printable(peer.error);
    return {true, absl::StrCat("the daemon of this node has no key", why)};
  }
  if (peer.fingerprint != fingerprint) {
    return {true, absl::StrCat("the daemon of this node has another key, ",
                               Printable(peer.fingerprint), kAgain)};
  }
  if (!peer.error.empty()) {
    return {true, absl::StrCat("the daemon of this node has it, but ", Printable(peer.error))};
  }
  return {false, absl::StrCat("the daemon of this node uses it, and ",
                              peer.address.empty() ? "does not listen (--peer-listen none)"
                                                   : "listens at " + Printable(peer.address))};
}

}  // namespace ranklog::cli
