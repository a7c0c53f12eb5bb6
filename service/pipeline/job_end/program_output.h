// Runs another program and returns its output. The program may be missing, hang, or print without
// end.

#ifndef SERVICE_PIPELINE_JOB_END_PROGRAM_OUTPUT_H_
#define SERVICE_PIPELINE_JOB_END_PROGRAM_OUTPUT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ranklog::pipeline {

// Runs args[0], found by $PATH, and returns what it wrote to stdout, whatever its exit code; at
// most 1 MiB. It gets PATH, HOME, LANG and the variables named in `variables` from our environment,
// and no key of a tracker. It is killed if stdout is still open after `timeout`, or once `give_up`
// returns true, which is called ten times a second.
//   kNotFound           no such program, or it cannot be started
//   kDeadlineExceeded   it was killed
//   kResourceExhausted  no free descriptor or process, or it printed too much
//
// If the file system of the program hangs, the call blocks until it recovers.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& args,
                                     const std::vector<std::string>& variables,
                                     absl::Duration timeout, const std::function<bool()>& give_up);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_JOB_END_PROGRAM_OUTPUT_H_
