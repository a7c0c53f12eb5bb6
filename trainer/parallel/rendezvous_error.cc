#include "trainer/parallel/rendezvous_error.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ranklog::trainer {
namespace {

// The error of binding a socket of this machine to `address`; 0: it can be bound.
int BindError(const sockaddr* address, socklen_t size) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;  // as LibTorch does: closed connections do not count
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int error = bind(fd, address, size) == 0 ? 0 : errno;
  close(fd);
  return error;
}

struct FreeAddresses {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Whether one of the addresses belongs to this machine. They have no port.
bool IsHere(const Addresses& addresses) {
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    if (BindError(one->ai_addr, one->ai_addrlen) == 0) return true;
  }
  return false;
}

std::string HostName() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return host;
}

}  // namespace

bool PortIsTaken(uint16_t port) {
  sockaddr_in6 any6 = {};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4 = {};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  const int error6 = BindError(reinterpret_cast<sockaddr*>(&any6), sizeof any6);
  // LibTorch serves on IPv4 if it cannot serve on both.
  return error6 != 0 && BindError(reinterpret_cast<sockaddr*>(&any4), sizeof any4) == EADDRINUSE;
}

std::string PortTakenError(uint16_t port) {
  return absl::StrCat("port ", port,
                      " is taken, by another program or by another rank 0: choose another "
                      "MASTER_PORT, the same for all ranks");
}

std::string ExplainNoStore(const Rendezvous& at, absl::Duration timeout,
                           const std::string& reason) {
  const bool serves = at.rank == 0 && !at.hosted;
  if (serves && PortIsTaken(at.port)) return PortTakenError(at.port);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(at.address.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::StrCat("cannot resolve MASTER_ADDR=", at.address, ": ", gai_strerror(error),
                        "; set it to the host of rank 0");
  }
  const Addresses addresses(found);
  if (serves && !IsHere(addresses)) {
    return absl::StrCat("cannot reach its own store at MASTER_ADDR=", at.address,
                        ", which is not an address of this machine: MASTER_ADDR must be the host "
                        "of rank 0, here ",
                        HostName());
  }
  return absl::StrCat(
      "cannot connect to ", at.address, ":", at.port, " within ", absl::FormatDuration(timeout),
      ": check that ",
      at.hosted ? "the launcher runs there"
                : "rank 0 runs, that MASTER_ADDR is its host and MASTER_PORT the "
                  "same for all ranks",
      ", and that no firewall blocks the port",
      absl::StrContains(reason, "timed out") ? "" : absl::StrCat(" (", reason, ")"));
}

}  // namespace ranklog::trainer
