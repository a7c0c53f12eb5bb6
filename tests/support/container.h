// A container as far as the tests need one: namespaces of mounts and processes, made by unshare(1).

#ifndef TESTS_SUPPORT_CONTAINER_H_
#define TESTS_SUPPORT_CONTAINER_H_

#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace ranklog::testing {

// The command line of `command` as process 1 of a container, whose end is the end of all. It has a
// /dev/shm of 64 MiB and a /var/tmp of its own; the other files are those of the host.
inline std::vector<std::string> InContainer(const std::vector<std::string>& command = {}) {
  std::vector<std::string> args = {"unshare",
                                   "--mount",
                                   "--pid",
                                   "--fork",
                                   "--kill-child",
                                   "--mount-proc",
                                   "sh",
                                   "-c",
                                   "mount -t tmpfs -o size=64m none /dev/shm && "
                                   "mount -t tmpfs -o mode=700 none /var/tmp && exec \"$@\"",
                                   "sh"};
  args.insert(args.end(), command.begin(), command.end());
  return args;
}

// Whether this kernel and user may have one.
inline bool HasContainers() { return RunToEnd(InContainer({"true"})).code == 0; }

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_CONTAINER_H_
