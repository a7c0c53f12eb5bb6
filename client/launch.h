// Who started the ranks of this job on this node.

#ifndef CLIENT_LAUNCH_H_
#define CLIENT_LAUNCH_H_

#include <string>

#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// The identifier of the boot that this process belongs to.
std::string BootId();

// The process that started the ranks: the next ancestor that does not have this rank's variables,
// so that a wrapper such as `sh -c` is passed over.
struct Starter {
  // Equal for all ranks that one launcher started on this node, and no other process has it.
  std::string id;
  // False: it is outside of our pid namespace, and `id` is of something inside: each rank that is
  // in a container of its own has another.
  bool seen = true;
};
Starter FindLauncher();

// Which start this is, for an Init() with these settings. `id_given`: the user chose the run id.
// Counts the Inits of this process under each id: all but the first are starts of their own.
v1::Launch MakeLaunch(const Settings& resolved, bool id_given);

}  // namespace ranklog::internal

#endif  // CLIENT_LAUNCH_H_
