// Where a daemon's socket may be.

#ifndef CLIENT_SOCKET_ADDRESS_H_
#define CLIENT_SOCKET_ADDRESS_H_

#include <string>
#include <vector>

#include "client/spool_dir.h"

namespace ranklog::internal {

using v1::kSocketFile;
inline constexpr size_t kMaxSocketPathBytes = 107;  // sockaddr_un holds 108 with the zero

// Why Settings::address cannot be one, a sentence; empty if it can: empty, or unix:PATH.
std::string AddressError(const std::string& address);

// A socket, and the directory that must be ours alone before it is believed.
struct SocketPlace {
  std::string path;
  PrivateDir dir;
  // The user named it: where the directory is not ours alone, it is the daemon that must be.
  bool trusted = false;
};

// The places where a daemon may answer, best first. `address` is valid.
std::vector<SocketPlace> SocketPlaces(const std::string& address);

}  // namespace ranklog::internal

#endif  // CLIENT_SOCKET_ADDRESS_H_
