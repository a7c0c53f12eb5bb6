// Receives in a test the messages that a service sends to systemd.

#ifndef TESTS_SUPPORT_NOTIFY_SOCKET_H_
#define TESTS_SUPPORT_NOTIFY_SOCKET_H_

#include <gtest/gtest.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace ranklog::testing {

// The notification socket, as systemd would give it to a service.
class NotifySocket {
 public:
  // `name`: the value of $NOTIFY_SOCKET.
  explicit NotifySocket(const std::string& name)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0) << strerror(errno);
  }
  ~NotifySocket() { close(fd_); }

  // Returns the next waiting datagram; "" if there is none.
  std::string Take() const {
    char bytes[64];
    const ssize_t size = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    return size < 0 ? "" : std::string(bytes, static_cast<size_t>(size));
  }

 private:
  const int fd_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_NOTIFY_SOCKET_H_
