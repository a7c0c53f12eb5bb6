#include "service/ingest/orphans/child_connection.h"

#include <errno.h>
#include <sys/socket.h>

#include <cstdint>

#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::ingest {

std::map<std::string, std::string> ChildConnection::TakeCredentials() const {
  constexpr uint32_t kMostSecrets = 64 << 10;  // as a Hello
  uint32_t size = 0;
  if (!valid() || recv(fd(), &size, sizeof size, MSG_DONTWAIT) != sizeof size ||
      size > kMostSecrets) {
    return {};
  }
  std::string bytes(size, 0);
  v1::Hello secrets;
  if (recv(fd(), bytes.data(), size, MSG_DONTWAIT) != static_cast<ssize_t>(size) ||
      !secrets.ParseFromString(bytes)) {
    return {};
  }
  return {secrets.credentials().begin(), secrets.credentials().end()};
}

bool ChildConnection::TakeRequest() {
  char bytes[1024];
  if (!valid()) return false;
  const ssize_t size = recv(fd(), bytes, sizeof bytes, MSG_DONTWAIT);
  const bool waits = size < 0 && (errno == EAGAIN || errno == EINTR);
  if (!waits && (size <= 0 || size == sizeof bytes)) UniqueFd closed(std::move(socket_));
  return size > 0;
}

}  // namespace ranklog::ingest
