// The server for the daemons of other nodes: listens on TCP, and gives connections to gRPC.

#ifndef SERVICE_PEER_TLS_PEER_LISTENER_H_
#define SERVICE_PEER_TLS_PEER_LISTENER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/host_port.h"
#include "service/base/pulse.h"
#include "service/base/unique_fd.h"
#include "service/peer/tls/peer_key.h"

namespace ranklog::peer {

// Binds only the configured address. What cannot work now, such as an address in use, is an error
// text, and is tried again.
//
// Connections of peers use at most half of the process's descriptors, and ranks may use two thirds
// (ingest/server/acceptor.h), so peers and scanners never keep ranks out. A connection without the
// first byte of a TLS handshake, or without the whole handshake, is closed after 10 s each. gRPC's
// memory for peers is bounded.
//
// Runs one thread of its own. All functions may be called from any other thread.
class PeerListener {
 public:
  struct Options {
    HostPort address = {};  // port 0: any free one, for tests
    absl::Duration first_byte = absl::Seconds(10);
    absl::Duration handshake = absl::Seconds(10);  // from the first byte on
    size_t max_undecided =
        256;  // connections without a first byte; above that the oldest is closed
    // No connection gets a descriptor with this number or above. Room for 10,000 nodes.
    int max_descriptor = 12'288;
    size_t memory = size_t{512} << 20;            // of gRPC for all peers
    absl::Duration renew = absl::Hours(24 * 7);   // the credentials
    absl::Duration retry = absl::Seconds(10);     // after an error
    std::function<absl::Time()> now = absl::Now;  // the wall clock, for certificates
  };
  struct Counters {
    std::atomic<uint64_t> accepted{0};
    std::atomic<uint64_t> refused{0};    // not TLS, or silent for too long
    std::atomic<uint64_t> shortages{0};  // closed, because peers have no descriptor left
  };

  // `service` must use the callback API, and outlive the listener, as must `key` and `counters`.
  static absl::StatusOr<std::unique_ptr<PeerListener>> Start(Options options, const PeerKey* key,
                                                             grpc::Service* service,
                                                             Counters* counters);
  ~PeerListener();  // calls Stop()

  // Closes all connections; calls in progress get five seconds. Idempotent.
  void Stop();

  // Why it does not listen, and what to do; empty if it listens.
  std::string error() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Where it listens. The port is known once error() was empty.
  HostPort address() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Time since the last beat of the thread; see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  PeerListener(Options options, const PeerKey* key, grpc::Service* service, Counters* counters);
  void Run();
  // Brings the server and the socket up to date.
  void Maintain(absl::Time now);
  bool MustRenew(absl::Time now) const;
  absl::Status MakeServer();
  absl::Status Bind();
  void EndServer();
  void Wait(absl::Time now);
  void AcceptAll(absl::Time now);
  void Decide(int fd);
  void CloseLate(absl::Time now);
  void SetError(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const PeerKey& key_;
  grpc::Service* const service_;
  Counters& counters_;
  UniqueFd stop_;  // eventfd
  // Used only by Run() once the thread runs.
  UniqueFd socket_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  absl::Time made_;                                           // the server, by the wall clock
  absl::Time made_steady_;                                    // the same by the steady clock
  absl::Time try_again_;                                      // after an error
  absl::Time accept_again_;                                   // after a shortage of descriptors
  std::map<int, std::pair<UniqueFd, absl::Time>> undecided_;  // and deadlines, by descriptor
  Pulse pulse_;
  mutable absl::Mutex mutex_;
  std::string error_ ABSL_GUARDED_BY(mutex_) = "not started yet";
  HostPort address_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_TLS_PEER_LISTENER_H_
