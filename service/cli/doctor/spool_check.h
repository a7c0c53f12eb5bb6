// Checks the spools of this user: the directories for them, and the rings in them.

#ifndef SERVICE_CLI_DOCTOR_SPOOL_CHECK_H_
#define SERVICE_CLI_DOCTOR_SPOOL_CHECK_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "ranklog/v1/places.h"
#include "service/cli/doctor/finding.h"
#include "service/cli/node/globals.h"
#include "service/query/run_report.h"

namespace ranklog::cli {

// Whether another user has `dir`, where our ranks create spools and the daemon its socket.
absl::optional<Finding> CheckSpoolOwner(const v1::PrivateDir& dir);

// The rings in `dir`: their size, the damaged ones, and those of other versions. nullopt: it has
// none.
absl::optional<Finding> CheckRings(const std::string& dir);

// Rows of ranks for which no daemon runs.
absl::optional<Finding> CheckUnreadSpools(const Globals& globals, const std::string& dir);

// Rings that no daemon takes. CheckRings() names those of other versions.
std::vector<Finding> CheckStrandedSpools(const Globals& globals, const std::string& dir);

// Rings that are not files, because no directory had room for them.
std::vector<Finding> CheckUnnamedSpools(const std::vector<query::RunReport>& runs);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_SPOOL_CHECK_H_
