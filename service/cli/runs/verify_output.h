// The output of `ranklog verify`, for users and programs.

#ifndef SERVICE_CLI_RUNS_VERIFY_OUTPUT_H_
#define SERVICE_CLI_RUNS_VERIFY_OUTPUT_H_

#include <string>

#include "service/cli/output/terminal.h"
#include "service/cli/runs/verify_report.h"

namespace ranklog::cli {

// The object of `ranklog verify --json`, an interface for scripts; service/json.md describes it.
model::Json ToJson(const VerifyReport& report);
std::string ToText(const VerifyReport& report, const Terminal& terminal);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUNS_VERIFY_OUTPUT_H_
