// Whether the trackers take what the store has for them.

#ifndef SERVICE_CLI_DELIVERY_CHECK_H_
#define SERVICE_CLI_DELIVERY_CHECK_H_

#include <vector>

#include "service/cli/examination.h"
#include "service/cli/run_report.h"

namespace ranklog::cli {

// One finding for each kind of tracker that a run goes to. Advice where a tracker's last answer to
// a run that waits was an error, and where rows wait while nobody delivers.
std::vector<Finding> LookAtDeliveries(const std::vector<RunReport>& runs, bool daemon_runs);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DELIVERY_CHECK_H_
