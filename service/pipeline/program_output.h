// What another program prints, which may be missing, hang, or print without end.

#ifndef SERVICE_PIPELINE_PROGRAM_OUTPUT_H_
#define SERVICE_PIPELINE_PROGRAM_OUTPUT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ranklog::pipeline {

// Runs args[0], looked for in $PATH, and returns what it wrote to stdout, whatever its exit code; at
// most 1 MiB. Of our environment it has PATH, HOME, LANG and those named in `variables`; no key of a
// tracker. It is killed when it has not closed stdout within `timeout`, or once `give_up` says so,
// which is asked ten times a second.
//   kNotFound           no such program, or it cannot be started
//   kDeadlineExceeded   it was killed
//   kResourceExhausted  no descriptor or process to be had, or it prints too much
// A program on a file system that hangs may keep the caller for as long as that does.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& args,
                                     const std::vector<std::string>& variables,
                                     absl::Duration timeout, const std::function<bool()>& give_up);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_PROGRAM_OUTPUT_H_
