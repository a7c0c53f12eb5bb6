// Asks whether a daemon of another node can be reached, and whether it has the same key.

#ifndef SERVICE_PEER_TLS_PROBE_H_
#define SERVICE_PEER_TLS_PROBE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/base/host_port.h"
#include "service/peer/tls/peer_key.h"

namespace ranklog::peer {

struct Probed {
  std::string address;   // IP:PORT that answered
  std::string protocol;  // "TLSv1.3"
  absl::Duration took;
};

// Connects, with certificates of both sides, and sends nothing else. Blocks for at most `patience`
// and the resolution of the name. The messages of errors tell what to do.
//   kNotFound            the name is unknown
//   kUnavailable         refused or unreachable: no daemon listens, or it has no key
//   kDeadlineExceeded    silent: usually a firewall
//   kUnauthenticated     one side does not accept the certificate of the other
//   kFailedPrecondition  another kind of server; or the key has expired
absl::StatusOr<Probed> Probe(const PeerKey& key, const HostPort& address, absl::Time now,
                             absl::Duration patience = absl::Seconds(10));

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_TLS_PROBE_H_
