// The texts of ranklogd for errors of CLI11. For config.cc only; includes CLI11.

#ifndef SERVICE_DAEMON_CONFIG_CONFIG_ERRORS_H_
#define SERVICE_DAEMON_CONFIG_CONFIG_ERRORS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "service/daemon/config/config.h"
#include "service/daemon/config/config_sources.h"

namespace ranklog::daemon {

// The text and the exit code for an error of CLI11, or for --help and --version. The text names the
// source of a wrong value: a flag, a line of the file, or a variable.
Parsed TextOf(const CLI::App& app, const LinedConfig& file, const std::vector<std::string>& args,
              const CLI::ParseError& error);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONFIG_CONFIG_ERRORS_H_
