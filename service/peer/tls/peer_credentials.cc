#include "service/peer/tls/peer_credentials.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"

namespace ranklog::peer {
namespace {

constexpr int kPing = 30'000;  // ms; firewalls forget silent connections after minutes
constexpr int kPingPatience = 20'000;
constexpr int kIdle = 10 * 60'000;   // peers of a live job send every few seconds
constexpr int kStreams = 8;          // of one connection; a peer has one call at a time
constexpr int kConnecting = 10'000;  // for an attempt, with the handshake
constexpr int kLeastBackoff = 1'000;
constexpr int kMostBackoff = 10'000;

// gRPC writes a line to stderr for each failed handshake, so a scanner could fill the disk.
void LogSparingly(gpr_log_func_args* line) {
  constexpr absl::string_view kHandshakes = "ssl_transport_security.cc";
  if (line->severity != GPR_LOG_SEVERITY_ERROR) return;
  if (!absl::EndsWith(line->file, kHandshakes)) {
    spdlog::error("gRPC: {} ({}:{})", line->message, line->file, line->line);
    return;
  }
  constexpr int64_t kMinute = 60;
  static std::atomic<int64_t> next{INT64_MIN};  // in seconds of the steady clock
  const int64_t now = absl::ToUnixSeconds(SteadyNow());
  int64_t due = next;
  if (now < due || !next.compare_exchange_strong(due, now + kMinute)) return;
  spdlog::warn(
      "no connection with the daemon of another node: {}; both need the same key, see `ranklog "
      "doctor --peer HOST`; this is logged once a minute",
      line->message);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const PeerKey& key,
                                                                               absl::Time now) {
  gpr_set_log_function(LogSparingly);
  ASSIGN_OR_RETURN(Leaf leaf, key.MakeLeaf(now));
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = key.authority_pem();
  options.pem_key_cert_pairs.push_back({std::move(leaf.key_pem), std::move(leaf.chain_pem)});
  return grpc::SslServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const PeerKey& key,
                                                                                 absl::Time now) {
  gpr_set_log_function(LogSparingly);
  ASSIGN_OR_RETURN(Leaf leaf, key.MakeLeaf(now));
  return grpc::SslCredentials({.pem_root_certs = key.authority_pem(),
                               .pem_private_key = std::move(leaf.key_pem),
                               .pem_cert_chain = std::move(leaf.chain_pem)});
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakePeerChannel(const PeerKey& key,
                                                               const HostPort& address,
                                                               absl::Time now) {
  ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(key, now));
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(kPeerName);
  arguments.SetMaxReceiveMessageSize(v1::kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(v1::kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPing);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingPatience);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kLeastBackoff);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnecting);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMostBackoff);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // nodes reach each other without it
  // Otherwise gRPC would give the connection of an earlier channel to a renewed one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // "dns" is also right for addresses; without it, a host such as "unix" would be a scheme.
  return grpc::CreateCustomChannel("dns:///" + address.Text(), credentials, arguments);
}

void SetPeerArguments(grpc::ServerBuilder* builder, absl::Duration handshake) {
  builder->SetMaxReceiveMessageSize(v1::kMaxMessageBytes);
  builder->SetMaxSendMessageSize(v1::kMaxMessageBytes);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(handshake)));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdle);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreams);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 2 * kPing);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingPatience);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  // Else the server ends a connection after some early pings (GOAWAY "too_many_pings").
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

}  // namespace ranklog::peer
