// Checks whether the trackers accept the rows of the store.

#ifndef SERVICE_CLI_DOCTOR_DELIVERY_CHECK_H_
#define SERVICE_CLI_DOCTOR_DELIVERY_CHECK_H_

#include <vector>

#include "service/cli/doctor/finding.h"
#include "service/cli/node/globals.h"
#include "service/query/run_report.h"

namespace ranklog::cli {

// One finding for each kind of tracker. It has advice if the last answer for a waiting run was an
// error, or if rows wait and no process delivers. In addition, one finding for each refused run.
std::vector<Finding> CheckDeliveries(const Globals& globals,
                                     const std::vector<query::RunReport>& runs, bool daemon_runs);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_DELIVERY_CHECK_H_
