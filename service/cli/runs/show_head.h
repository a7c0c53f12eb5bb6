// The head of `ranklog show`: the state of a run.

#ifndef SERVICE_CLI_RUNS_SHOW_HEAD_H_
#define SERVICE_CLI_RUNS_SHOW_HEAD_H_

#include <string>

#include "service/cli/node/globals.h"
#include "service/cli/output/terminal.h"
#include "service/query/run_report.h"

namespace ranklog::cli {

// The run's name, state and rows; a line for each rank and each destination; with problems in red.
std::string HeadText(const Globals& globals, const query::RunReport& report,
                     const Terminal& terminal);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUNS_SHOW_HEAD_H_
