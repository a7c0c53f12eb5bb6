#include "client/stream/socket/open_sockets.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace ranklog::internal {
namespace {

struct OpenSocket {
  int fd;
  int duplicate;
  dev_t device;
  ino_t inode;
};

// Guarded by StateMutex(), or used by a child with one thread. Never destroyed.
std::vector<OpenSocket>& OpenSockets() {
  static auto* const sockets = new std::vector<OpenSocket>;
  return *sockets;
}

// The program may have closed our descriptors, and opened others with their numbers.
bool IsSame(int fd, const OpenSocket& socket) {
  struct stat info {};
  return fd >= 0 && fstat(fd, &info) == 0 && info.st_dev == socket.device &&
         info.st_ino == socket.inode;
}

}  // namespace

void AddSocket(int fd, int duplicate) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return;
  MutexLock lock(StateMutex());
  OpenSockets().push_back({fd, duplicate, info.st_dev, info.st_ino});
}

bool IsSocket(int fd) {
  MutexLock lock(StateMutex());
  return std::any_of(OpenSockets().begin(), OpenSockets().end(), [fd](const OpenSocket& socket) {
    return socket.fd == fd && IsSame(fd, socket);
  });
}

void CloseSocket(int fd) {
  MutexLock lock(StateMutex());
  std::erase_if(OpenSockets(), [fd](const OpenSocket& socket) {
    if (socket.fd != fd) return false;
    if (IsSame(fd, socket)) close(fd);
    return true;
  });
}

void CloseInheritedSockets() {
  for (const OpenSocket& socket : OpenSockets()) {
    for (const int fd : {socket.fd, socket.duplicate}) {
      if (IsSame(fd, socket)) close(fd);
    }
  }
  OpenSockets().clear();
}

}  // namespace ranklog::internal
