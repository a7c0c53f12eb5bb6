// The output of `ranklog status --json`; service/json.md describes it.

#ifndef SERVICE_CLI_STATUS_STATUS_JSON_H_
#define SERVICE_CLI_STATUS_STATUS_JSON_H_

#include "service/cli/status/overview.h"
#include "service/model/run.h"

namespace ranklog::cli {

model::Json OverviewJson(const Overview& overview);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_STATUS_STATUS_JSON_H_
