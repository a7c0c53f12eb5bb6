// Checks the stores of this node. Reads every row of the state directory's store. Also checks the
// stores in other standard directories, and stores that were set aside as damaged.

#ifndef SERVICE_CLI_DOCTOR_STORES_CHECK_H_
#define SERVICE_CLI_DOCTOR_STORES_CHECK_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "service/cli/doctor/finding.h"
#include "service/cli/node/globals.h"
#include "service/query/run_report.h"

namespace ranklog::cli {

// The store in `dir`, and the runs in it with unreadable rows. Reads the whole store, with a
// progress bar on a terminal.
Finding CheckStore(const Globals& globals, const std::string& dir);

// Runs with rows that are missing from the run or were logged twice. Nothing can be done about
// them.
std::vector<Finding> ListLostRows(const std::vector<query::RunReport>& runs);

// A store in another standard place, for example because another container held the usual place at
// that time. No daemon delivers its remaining rows.
absl::optional<Finding> CheckOtherStore(const std::string& dir);

// The damaged store that was renamed to `path`, and how many of its rows can be read.
Finding CheckSetAside(const std::string& path);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_STORES_CHECK_H_
