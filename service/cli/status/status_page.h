// The output of `ranklog status` for people.

#ifndef SERVICE_CLI_STATUS_STATUS_PAGE_H_
#define SERVICE_CLI_STATUS_STATUS_PAGE_H_

#include <string>

#include "service/cli/output/terminal.h"
#include "service/cli/status/overview.h"

namespace ranklog::cli {

// The page: a line per fact, with problems in red; the destinations; the running runs.
std::string OverviewText(const Overview& overview, const Terminal& terminal);

// One line with the changing figures, for a log.
std::string OverviewLine(const Overview& overview);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_STATUS_STATUS_PAGE_H_
