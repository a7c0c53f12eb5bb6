// The process at the other end of a connection, as reported by the kernel.

#ifndef SERVICE_INGEST_RING_PEER_H_
#define SERVICE_INGEST_RING_PEER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/base/unique_fd.h"
#include "service/ingest/ring/process_end.h"

namespace ranklog::ingest {

struct Peer {
  pid_t pid = 0;  // 0: the process is in a pid namespace that this daemon does not see
  uid_t uid = 0;
  UniqueFd pidfd;  // readable once the process has ended; invalid if pid is 0

  OomKills oom_kills;

  // Whether the process is known to have ended.
  bool exited() const;
  // Its wait status, as of waitpid(2). nullopt if it runs, or if the status cannot be known.
  absl::optional<int> wait_status() const;
  // Describes that status as a predicate: "was killed by signal 9 (Killed) for lack of memory".
  std::string Describe(int wait_status) const;
};

// Reads SO_PEERCRED of a connected socket and opens a pidfd. pid is 0 if the kernel gives no pid.
Peer PeerOf(int socket);

// Finds the peer of a gRPC call. A channel made from a descriptor has no address, so gRPC 1.51
// names its peer "fd:N" by the descriptor's number. The number stays in use while the channel
// lives. When it is used again, the entry is replaced. Thread-safe.
class PeerTable {
 public:
  void Add(int fd, std::shared_ptr<const Peer> peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Null if `grpc_peer` does not have that form.
  std::shared_ptr<const Peer> Find(absl::string_view grpc_peer) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::map<int, std::shared_ptr<const Peer>> peers_ ABSL_GUARDED_BY(mutex_);  // shared with streams
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RING_PEER_H_
