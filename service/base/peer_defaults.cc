#include "service/base/peer_defaults.h"

#include <unistd.h>

#include "service/base/environment.h"

namespace ranklog {

int DefaultPeerPort() { return 20000 + static_cast<int>(geteuid() % 10000); }

std::string DefaultPeerKeyFile() {
  if (const std::string config = EnvironmentVariable("XDG_CONFIG_HOME"); !config.empty()) {
    return config + "/ranklog/peer.key";
  }
  const std::string home = EnvironmentVariable("HOME");
  return home.empty() ? "" : home + "/.config/ranklog/peer.key";
}

}  // namespace ranklog
