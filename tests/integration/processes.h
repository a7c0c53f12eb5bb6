// What /proc says of processes that are nobody's children.

#ifndef TESTS_INTEGRATION_PROCESSES_H_
#define TESTS_INTEGRATION_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace ranklog::testing {

// Of /proc/PID/`file`, all; empty if it cannot be read.
std::string ReadProc(pid_t pid, const std::string& file);

// Of a line of /proc/PID/stat, counted from the state, which is 0.
std::string StatField(pid_t pid, int index);

bool Runs(pid_t pid);

// All running processes with `argument` on their command line.
std::vector<pid_t> ProcessesWith(const std::string& argument);

}  // namespace ranklog::testing

#endif  // TESTS_INTEGRATION_PROCESSES_H_
