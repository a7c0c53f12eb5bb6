// An address on the network: HOST:PORT.

#ifndef SERVICE_BASE_HOST_PORT_H_
#define SERVICE_BASE_HOST_PORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog {

struct HostPort {
  std::string host;  // a name or an address, without brackets
  int port = 0;

  // HOST:PORT, with an IPv6 address in brackets.
  std::string Text() const;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Reads HOST or HOST:PORT, with an IPv6 address in brackets. A host without a port gets
// `default_port`; 0: the port is required. nullopt: the text is none of these.
absl::optional<HostPort> ParseHostPort(absl::string_view text, int default_port);

}  // namespace ranklog

#endif  // SERVICE_BASE_HOST_PORT_H_
