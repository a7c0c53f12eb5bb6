// Reads /proc about processes that are not children of the test.

#ifndef TESTS_INTEGRATION_PROCESSES_H_
#define TESTS_INTEGRATION_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace ranklog::testing {

// Returns all of /proc/PID/`file`; empty if it cannot be read.
std::string ReadProc(pid_t pid, const std::string& file);

// Returns a field of /proc/PID/stat; field 0 is the state.
std::string StatField(pid_t pid, int index);

bool Runs(pid_t pid);

// Returns all running processes with `argument` on their command line.
std::vector<pid_t> ProcessesWith(const std::string& argument);

}  // namespace ranklog::testing

#endif  // TESTS_INTEGRATION_PROCESSES_H_
