// Takes connections from the Unix socket, looks who calls, and hands each on: to gRPC, or, if it
// brings the descriptor of a spool, to whoever waits for that.

#ifndef SERVICE_INGEST_ACCEPTOR_H_
#define SERVICE_INGEST_ACCEPTOR_H_

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
#include "service/ingest/listen_socket.h"
#include "service/ingest/peer.h"
#include "service/ingest/unique_fd.h"

namespace ranklog::ingest {

// A third of the process's descriptors is left to what comes behind a connection: the ring of its
// rank, the store's files, the trackers. Ranks that find no room wait in the socket's backlog until
// others leave. A socket file that somebody removes is made again, unless systemd listens there by then.
//
// A thread of its own; Stop() from any other. Processes of other users are refused: the rows, the
// credentials and the files of a daemon are its user's.
class Acceptor {
 public:
  struct Options {
    uid_t uid = geteuid();  // who may connect
    absl::Duration first_bytes =
        absl::Seconds(10);  // a connection that has not said by then what it is, is closed
    size_t max_undecided =
        256;  // connections that wait for their first bytes; then the oldest goes
    absl::Duration look_interval = absl::Seconds(3);  // between looks whether the file is there
  };
  // Called on the acceptor's thread, and must not block.
  struct Handlers {
    // A gRPC client's connection, non-blocking.
    std::function<void(UniqueFd, std::shared_ptr<const Peer>)> grpc;
    // A spool's descriptor, for the ring of this incarnation.
    std::function<void(uint64_t incarnation, UniqueFd, std::shared_ptr<const Peer>)> descriptor;
  };
  struct Counters {
    std::atomic<uint64_t> accepted{0};
    std::atomic<uint64_t> refused_user{0};      // another user's process
    std::atomic<uint64_t> refused_protocol{0};  // neither gRPC nor a descriptor, or nothing in time
    std::atomic<uint64_t> descriptors{0};
    std::atomic<uint64_t> shortages{0};  // times that ranks had to wait for free descriptors
    std::atomic<uint64_t> rebinds{0};    // times that the socket's file was gone, and made again
  };

  // `counters` outlives this.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(ListenSocket socket, Options options,
                                                         Handlers handlers, Counters* counters);
  ~Acceptor();  // Stop()

  // Accepts no more, closes what is undecided, and removes the socket's file. Twice is harmless.
  void Stop();

  const std::string& path() const { return path_; }
  // systemd listens at path() now: new ranks come to its unit, not to us.
  bool superseded() const { return superseded_.load(); }
  // Of its thread: see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  struct Undecided {
    UniqueFd fd;
    std::shared_ptr<const Peer> peer;  // shared with the stream that it becomes
    absl::Time deadline;
  };
  enum class Decision { kWait, kGrpc, kDescriptor, kGone, kRefuse };

  Acceptor(ListenSocket socket, Options options, Handlers handlers, Counters* counters);
  void Run();
  void AcceptAll();
  void Admit(UniqueFd fd);
  // Out of descriptors: accepts nobody for a second, and longer while they are short.
  void Pause(absl::Time now);
  void Resume(absl::Time now);
  // Listens again where the socket's file is gone.
  void LookAtFile(absl::Time now);
  void Decide(int fd);
  void ReceiveDescriptor(Undecided connection);
  void CloseLate(absl::Time now);
  int WaitMilliseconds(absl::Time now) const;
  static Decision Look(int fd);

  ListenSocket socket_;  // of Run() only, once that runs
  const std::string path_;
  const Options options_;
  const Handlers handlers_;
  Counters& counters_;
  UniqueFd epoll_;
  UniqueFd stop_;        // an eventfd
  bool paused_ = false;  // out of descriptors: not listening until `resume_`
  absl::Time resume_;
  bool short_ = false;                  // out of descriptors since all who waited were let in
  absl::Time look_;                     // the next look at the socket's file
  bool unbound_ = false;                // its file is gone, and cannot be made: said once
  std::map<int, Undecided> undecided_;  // by descriptor; of Run() only
  std::atomic<bool> superseded_{false};
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ACCEPTOR_H_
