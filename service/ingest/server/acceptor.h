// Accepts connections on the Unix socket and checks the user of each peer. Hands the connection to
// gRPC, or, if it carries a spool descriptor, to the handler for descriptors.

#ifndef SERVICE_INGEST_SERVER_ACCEPTOR_H_
#define SERVICE_INGEST_SERVER_ACCEPTOR_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/base/pulse.h"
#include "service/base/unique_fd.h"
#include "service/ingest/ring/peer.h"
#include "service/ingest/server/listen_socket.h"

namespace ranklog::ingest {

// Uses at most two thirds of the process's descriptors for connections. The last third is left for
// the rings of the ranks, the files of the store and the trackers. When no descriptor is free, new
// ranks wait in the socket's backlog until other ranks leave. If the socket file is removed, the
// acceptor creates it again, unless systemd listens at that path by then.
//
// Runs one thread of its own; call Stop() from any other thread. Processes of other users are
// refused, because rows, credentials and files belong to the daemon's user.
class Acceptor {
 public:
  struct Options {
    uid_t uid = geteuid();  // the only user that may connect
    // A connection that has not sent its first bytes by then is closed.
    absl::Duration first_bytes = absl::Seconds(10);
    // Connections waiting for first bytes; above that the oldest is closed.
    size_t max_undecided = 256;
    absl::Duration check_interval = absl::Seconds(3);  // between checks that the socket file exists
  };
  // Called on the acceptor's thread. Must not block.
  struct Handlers {
    // A connection from a gRPC client, non-blocking.
    std::function<void(UniqueFd, std::shared_ptr<const Peer>)> grpc;
    // A spool descriptor, for the ring of this incarnation, and the connection on which it came.
    std::function<void(uint64_t incarnation, UniqueFd, std::shared_ptr<const Peer>,
                       UniqueFd connection)>
        descriptor;
  };
  struct Counters {
    std::atomic<uint64_t> accepted{0};
    std::atomic<uint64_t> refused_user{0};  // connections from other users' processes
    // Neither gRPC nor a descriptor, or no bytes in time.
    std::atomic<uint64_t> refused_protocol{0};
    std::atomic<uint64_t> descriptors{0};
    std::atomic<uint64_t> shortages{0};  // times that ranks had to wait for a free descriptor
    // Times that the socket file was missing and was created again.
    std::atomic<uint64_t> rebinds{0};
  };

  // Starts the thread. Fails only if descriptors cannot be created. `counters` must outlive the
  // acceptor.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(ListenSocket socket, Options options,
                                                         Handlers handlers, Counters* counters);
  ~Acceptor();  // calls Stop()

  // Stops accepting, closes undecided connections, and removes the socket file. Idempotent.
  void Stop();

  const std::string& path() const { return path_; }
  // systemd listens at path() now, so new ranks reach its unit instead of this daemon.
  bool superseded() const { return superseded_.load(); }
  // Time since the last beat of the acceptor's thread; see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  struct PendingConnection {
    UniqueFd fd;
    std::shared_ptr<const Peer> peer;  // shared with the stream that the connection becomes
    absl::Time deadline;
  };
  enum class Decision { kWait, kGrpc, kDescriptor, kGone, kRefuse };

  Acceptor(ListenSocket socket, Options options, Handlers handlers, Counters* counters);
  void Run();
  void AcceptAll();
  void Admit(UniqueFd fd);
  // Out of descriptors: accepts nothing for a second, or longer while descriptors are short.
  void Pause(absl::Time now);
  void Resume(absl::Time now);
  // Listens again if the socket file is missing.
  void CheckSocketFile(absl::Time now);
  void Decide(int fd);
  void ReceiveDescriptor(PendingConnection connection);
  void CloseLate(absl::Time now);
  int WaitMilliseconds(absl::Time now) const;
  static Decision Classify(int fd);

  ListenSocket socket_;  // used only by Run() once the thread runs
  const std::string path_;
  const Options options_;
  const Handlers handlers_;
  Counters& counters_;
  UniqueFd epoll_;
  UniqueFd stop_;        // eventfd
  bool paused_ = false;  // out of descriptors: not listening until `resume_`
  absl::Time resume_;
  bool short_ = false;    // descriptors ran out, and some ranks are still waiting
  absl::Time look_;       // time of the next check of the socket file
  bool unbound_ = false;  // the file is missing and cannot be created; logged once
  std::map<int, PendingConnection> undecided_;  // by descriptor; used only by Run()
  std::atomic<bool> superseded_{false};
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_ACCEPTOR_H_
