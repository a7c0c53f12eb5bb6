// Finds the process that started the ranks of this job on this node.

#ifndef CLIENT_LAUNCH_LAUNCH_H_
#define CLIENT_LAUNCH_LAUNCH_H_

#include <string>

#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// The identifier of the current boot of the machine, as this process sees it.
std::string BootId();

// The process that started the ranks: the next ancestor that does not have this rank's variables.
// This skips wrappers such as `sh -c`.
struct Starter {
  // Equal for all ranks that one launcher started on this node. No other process has it.
  std::string id;
  // False: the launcher is outside our pid namespace, and `id` belongs to a process inside. Then
  // ranks in separate containers have different ids.
  bool seen = true;
};
Starter FindLauncher();

// Describes the start to which an Init() with these settings belongs. `id_given`: the user chose
// the run id. Counts the calls of Init() in this process per id: each call after the first is a
// separate start.
v1::Launch MakeLaunch(const Settings& resolved, bool id_given);

}  // namespace ranklog::internal

#endif  // CLIENT_LAUNCH_LAUNCH_H_
