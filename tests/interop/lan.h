// A network of hosts on this machine, whose links can be cut.

#ifndef TESTS_INTEROP_LAN_H_
#define TESTS_INTEROP_LAN_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ranklog::testing {

// Hosts on one switch. To its programs, a host looks like a separate machine: it has a host name,
// an address and a network interface. All its ports are free, and it resolves the names of the
// other hosts. All hosts share the files and processes of this machine.
//
// The namespaces have no names, and end with this process and its children. Needs root.
class Lan {
 public:
  // Whether this user may create one on this kernel.
  static bool Possible();

  explicit Lan(const std::vector<std::string>& hosts);
  // Kills all processes on the hosts, such as the ranks of a killed launcher.
  ~Lan();
  Lan(const Lan&) = delete;
  Lan& operator=(const Lan&) = delete;

  // The IPv4 address of `host`, in dotted notation.
  std::string Address(const std::string& host) const;
  // A command line that runs `command` on `host`, by exec() in the same process.
  std::vector<std::string> On(const std::string& host,
                              const std::vector<std::string>& command = {}) const;
  // Moves this thread to the network of `host`. From now on, the sockets of this thread and of its
  // new threads are there. Undone when this object is destroyed.
  void MoveTo(const std::string& host);

  // From now on, the switch drops all packets between `a` and `b`. Their interfaces stay up. Only
  // one cut at a time.
  void Cut(const std::string& a, const std::string& b) { SetIsolated(a, b, true); }
  void Mend(const std::string& a, const std::string& b) { SetIsolated(a, b, false); }

 private:
  struct Namespace;
  struct Host;

  const Host& Find(const std::string& name) const;
  void SetIsolated(const std::string& a, const std::string& b, bool isolated);

  TempDir dir_;  // contains the /etc/hosts of the hosts
  std::unique_ptr<Namespace> own_, switch_;
  std::vector<Host> hosts_;
};

}  // namespace ranklog::testing

#endif  // TESTS_INTEROP_LAN_H_
