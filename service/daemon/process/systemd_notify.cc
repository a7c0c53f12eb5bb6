#include "service/daemon/process/systemd_notify.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>

namespace ranklog::daemon {

void NotifySystemd(const std::string& address, const std::string& state) {
  sockaddr_un to{};
  if (address.empty() || address.size() >= sizeof(to.sun_path)) return;
  to.sun_family = AF_UNIX;
  memcpy(to.sun_path, address.data(), address.size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  (void)!sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                reinterpret_cast<const sockaddr*>(&to), size);
  close(fd);
}

}  // namespace ranklog::daemon
