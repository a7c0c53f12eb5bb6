// What `ranklog doctor` looks at.

#ifndef SERVICE_CLI_EXAMINATION_H_
#define SERVICE_CLI_EXAMINATION_H_

#include <string>
#include <vector>

#include "service/cli/command.h"
#include "service/model/run.h"

namespace ranklog::cli {

struct Finding {
  std::string
      part;  // directory, disk, socket, daemon, store, rows, delivery, set aside, spool, ...
  model::Json data;  // for programs
  std::string text;
  std::string advice;  // empty: it is well
};

// Looks at `state_dir`, its daemon and the spools of this user, and changes nothing. Reads the
// whole store, with a bar on a terminal. What cannot be looked at is a finding. `ranks`: as many as
// are to run on this node.
std::vector<Finding> Examine(const Globals& globals, const std::string& state_dir, int ranks);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_EXAMINATION_H_
