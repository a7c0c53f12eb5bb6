// The possible locations of a daemon's socket.

#ifndef CLIENT_SETTINGS_SOCKET_ADDRESS_H_
#define CLIENT_SETTINGS_SOCKET_ADDRESS_H_

#include <string>
#include <vector>

#include "client/base/private_dir.h"

namespace ranklog::internal {

using v1::kSocketFile;

// Returns why Settings::address is invalid, as a sentence; empty if it is valid: empty, or
// unix:PATH.
std::string AddressError(const std::string& address);

// A socket, and its directory, which must be private to this user.
struct SocketLocation {
  std::string path;
  PrivateDir dir;
  // The user named this socket. Then either its directory must be private, or the daemon must run
  // as this user or as root.
  bool trusted = false;
};

// The places where a daemon may listen, best first. `address` must be valid.
std::vector<SocketLocation> SocketPlaces(const std::string& address);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_SOCKET_ADDRESS_H_
