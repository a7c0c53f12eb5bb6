#include "client/stream/socket/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/base/descriptor.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {
namespace {

bool IsOursOrRoots(int fd) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

// The peer receives API keys, so verify it first. In a private directory that the user named, the
// peer is our daemon even if it shows another user id (another user namespace).
absl::StatusOr<int> ConnectTo(const SocketLocation& place) {
  const absl::Status ours = Prepare({place.dir.path, /*create=*/false});
  const std::string no_answer = absl::StrCat("no daemon answers at unix:", place.path, ": ");
  if (!place.trusted && !ours.ok()) {
    return absl::NotFoundError(absl::StrCat(no_answer, ours.message()));
  }
  const int fd = AboveStandard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0)
    return absl::UnavailableError(absl::StrCat("cannot create a socket: ", strerror(errno)));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  place.path.copy(address.sun_path, v1::kMaxSocketPath);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    close(fd);
    const std::string message = absl::StrCat(no_answer, strerror(error));
    const bool absent = error == ENOENT || error == ECONNREFUSED;
    return absent ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  if (!IsOursOrRoots(fd) && !(place.trusted && ours.ok())) {
    close(fd);
    return absl::UnavailableError(absl::StrCat(
        "the daemon at unix:", place.path,
        " belongs to another user; set RANKLOG_ADDRESS to a socket in a directory of your own"));
  }
  return fd;
}

}  // namespace

absl::StatusOr<int> Connect(const std::vector<SocketLocation>& places, size_t* answered) {
  absl::Status absent, failed;  // the first of each kind
  for (size_t i = 0; i < places.size(); ++i) {
    absl::StatusOr<int> fd = ConnectTo(places[i]);
    if (fd.ok()) {
      *answered = i;
      return fd;
    }
    if (!absl::IsNotFound(fd.status())) {
      failed.Update(fd.status());
    } else if (places[i].trusted || v1::CanBeUsed(places[i].dir)) {
      absent.Update(fd.status());
    }
  }
  if (!failed.ok()) return failed;
  absent.Update(
      absl::NotFoundError("no usable directory for a daemon's socket; set RANKLOG_ADDRESS"));
  return absent;
}

absl::StatusOr<int> PassDescriptor(const SocketLocation& place, uint64_t incarnation, int spool_fd,
                                   const std::string& message) {
  const absl::StatusOr<int> connected = ConnectTo(place);
  if (!connected.ok()) return connected;
  std::string bytes(v1::kDescriptorMagic, sizeof v1::kDescriptorMagic);
  const auto append = [&bytes](uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  append(incarnation, sizeof incarnation);
  append(message.size(), sizeof(uint32_t));
  bytes += message;
  iovec data = {bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof spool_fd)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof spool_fd);
  memcpy(CMSG_DATA(rights), &spool_fd, sizeof spool_fd);
  const ssize_t sent = sendmsg(*connected, &header, MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return connected;
  const int error = sent < 0 ? errno : EMSGSIZE;
  close(*connected);
  return absl::UnavailableError(
      absl::StrCat("cannot pass the spool's descriptor: ", strerror(error)));
}

}  // namespace ranklog::internal
