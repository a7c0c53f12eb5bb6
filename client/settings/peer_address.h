// The address of the daemon of another node.

#ifndef CLIENT_SETTINGS_PEER_ADDRESS_H_
#define CLIENT_SETTINGS_PEER_ADDRESS_H_

#include <string_view>

namespace ranklog::internal {

// Whether the text is HOST or HOST:PORT, with an IPv6 address in brackets. The daemon applies the
// same rule (service/base/host_port.h).
bool IsPeerAddress(std::string_view text);

// Whether a host, without a port, means the machine that asks: localhost, 127.0.0.1, ::1, 0.0.0.0.
bool IsOwnHost(std::string_view host);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_PEER_ADDRESS_H_
