#include "service/ingest/ring/peer.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace ranklog::ingest {

bool Peer::exited() const {
  if (!pidfd.valid()) return false;
  pollfd event{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return poll(&event, 1, 0) == 1 && (event.revents & POLLIN) != 0;
}

absl::optional<int> Peer::wait_status() const {
  return exited() ? WaitStatusOf(pidfd.get(), pid) : absl::nullopt;
}

std::string Peer::Describe(int wait_status) const {
  std::string how = DescribeWaitStatus(wait_status);
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && oom_kills.count() > 0) {
    how += " for lack of memory";
  }
  return how;
}

Peer PeerOf(int socket) {
  Peer peer;
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return peer;
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  if (peer.pid > 0) {
    peer.pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
    peer.oom_kills = OomKills(peer.pid);
  }
  return peer;
}

void PeerTable::Add(int fd, std::shared_ptr<const Peer> peer) {
  absl::MutexLock lock(&mutex_);
  peers_[fd] = std::move(peer);
}

std::shared_ptr<const Peer> PeerTable::Find(absl::string_view grpc_peer) const {
  int fd = -1;
  if (!absl::ConsumePrefix(&grpc_peer, "fd:") || !absl::SimpleAtoi(grpc_peer, &fd)) return nullptr;
  absl::MutexLock lock(&mutex_);
  auto found = peers_.find(fd);
  return found == peers_.end() ? nullptr : found->second;
}

}  // namespace ranklog::ingest
