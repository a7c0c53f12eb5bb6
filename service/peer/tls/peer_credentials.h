// What gRPC needs for connections between the daemons of several nodes: TLS with certificates of
// both sides, and settings that keep a connection without traffic.

#ifndef SERVICE_PEER_TLS_PEER_CREDENTIALS_H_
#define SERVICE_PEER_TLS_PEER_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/base/host_port.h"
#include "service/peer/tls/peer_key.h"

namespace ranklog::peer {

// A leaf is valid for 30 days. Both sides make new credentials after this time, by calling the
// functions below again. A connection stays valid after its leaf has expired.
inline constexpr absl::Duration kRenewAfter = absl::Hours(24 * 7);

// Both require a certificate of the other side that the key signed. Two daemons use TLS 1.3; gRPC
// 1.51 cannot refuse TLS 1.2, which only a holder of the key can choose. Errors are those of
// PeerKey::MakeLeaf(). From then on, the messages of gRPC in this process go to the log, and of
// failed handshakes one a minute.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const PeerKey& key,
                                                                               absl::Time now);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const PeerKey& key,
                                                                                 absl::Time now);

// A channel to the daemon at `address`, which connects at the first call, and again after a loss.
// Does not use the proxy of the environment. A dead connection is noticed within a minute of a
// call.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakePeerChannel(const PeerKey& key,
                                                               const HostPort& address,
                                                               absl::Time now);

// The settings of a server for peers: limits of a message and of a connection's streams, the time
// for a `handshake`, and pings, which peers may send at any rate.
void SetPeerArguments(grpc::ServerBuilder* builder, absl::Duration handshake);

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_TLS_PEER_CREDENTIALS_H_
