// A network of hosts on this machine, whose links can be cut.

#ifndef TESTS_INTEROP_LAN_H_
#define TESTS_INTEROP_LAN_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ranklog::testing {

// Hosts on one switch. To the programs that run on a host it is a machine of its own: it has a host
// name, an address and a network interface, knows the other hosts by name, and no port of it is
// taken. Files and processes are those of this machine.
//
// The namespaces have no names, and end with this process and those that it started. Needs root.
class Lan {
 public:
  // Whether this kernel and user may have one.
  static bool Possible();

  explicit Lan(const std::vector<std::string>& hosts);
  // Kills what still runs on the hosts, such as the ranks of a launcher that was killed.
  ~Lan();
  Lan(const Lan&) = delete;
  Lan& operator=(const Lan&) = delete;

  // Of `host`, in the notation with dots.
  std::string Address(const std::string& host) const;
  // The command line that runs `command` on `host`, in the process that is started.
  std::vector<std::string> On(const std::string& host,
                              const std::vector<std::string>& command = {}) const;
  // Moves this thread's network to `host`: what it and the threads that it starts listen on from
  // now on is there. Until this object goes.
  void MoveTo(const std::string& host);

  // The switch drops each packet between `a` and `b`, which their interfaces do not notice. One cut
  // at a time.
  void Cut(const std::string& a, const std::string& b) { SetIsolated(a, b, true); }
  void Mend(const std::string& a, const std::string& b) { SetIsolated(a, b, false); }

 private:
  struct Namespace;
  struct Host;

  const Host& Find(const std::string& name) const;
  void SetIsolated(const std::string& a, const std::string& b, bool isolated);

  TempDir dir_;  // has what the hosts see as /etc/hosts
  std::unique_ptr<Namespace> own_, switch_;
  std::vector<Host> hosts_;
};

}  // namespace ranklog::testing

#endif  // TESTS_INTEROP_LAN_H_
