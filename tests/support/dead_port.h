// A loopback port that never answers.

#ifndef TESTS_SUPPORT_DEAD_PORT_H_
#define TESTS_SUPPORT_DEAD_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace ranklog::testing {

// Holds a free port for its lifetime. Connections are refused. If it listens, the kernel accepts
// them, and nobody ever answers.
class DeadPort {
 public:
  enum Kind { kRefuses, kListens };

  // Connections do not use addresses other than INADDR_LOOPBACK by themselves, so a port of another
  // one stays free after it.
  explicit DeadPort(Kind kind, in_addr_t host = INADDR_LOOPBACK)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(host);
    socklen_t size = sizeof address;
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        (kind == kListens && listen(fd_, 128) != 0)) {
      abort();  // without loopback, nothing can be tested
    }
    number_ = ntohs(address.sin_port);
  }
  ~DeadPort() { close(fd_); }
  DeadPort(const DeadPort&) = delete;
  DeadPort& operator=(const DeadPort&) = delete;

  int number() const { return number_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(number_); }

 private:
  const int fd_;
  int number_ = 0;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_DEAD_PORT_H_
