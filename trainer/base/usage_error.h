// What is wrong with a command line. For options.cc only; includes CLI11.

#ifndef TRAINER_BASE_USAGE_ERROR_H_
#define TRAINER_BASE_USAGE_ERROR_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ranklog::trainer {

// For `--NAME=`, as of `--save-dir=$UNSET`, CLI11 takes the next argument as the value. Throws
// CLI::ValidationError.
void CheckNoEmptyFlag(const std::vector<std::string>& args);

// The text of an error that CLI11 has thrown for this command line.
std::string UsageError(const CLI::ParseError& error, CLI::App& app, int argc,
                       const char* const* argv);

// Prints the reason, and leaves it for the launcher. Returns the exit code.
int WrongUsage(const std::string& reason);

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_USAGE_ERROR_H_
