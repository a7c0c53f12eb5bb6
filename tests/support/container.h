// A minimal container for tests: mount and process namespaces, made by unshare(1).

#ifndef TESTS_SUPPORT_CONTAINER_H_
#define TESTS_SUPPORT_CONTAINER_H_

#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace ranklog::testing {

// Returns the command line that runs `command` as process 1 of a container. When it ends, all
// processes of the container end. The container has a /dev/shm of 64 MiB and its own /var/tmp; it
// shares all other files with the host.
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

// Returns whether this kernel lets this user make one.
inline bool HasContainers() { return RunToEnd(InContainer({"true"})).code == 0; }

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_CONTAINER_H_
