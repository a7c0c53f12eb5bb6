// Code that `ranklog doctor` and `ranklog recover` share.

#ifndef SERVICE_CLI_NODE_SPOOLS_SALVAGE_REPORT_H_
#define SERVICE_CLI_NODE_SPOOLS_SALVAGE_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/model/run.h"
#include "service/storage/recovery/salvage.h"

namespace ranklog::cli {

inline constexpr char kScratch[] = "scratch-";  // prefix of the name of a scratch directory

// Advice if storage::Salvage() returns kDataLoss.
inline constexpr char kNoRowSaved[] =
    "no row can be saved; restore the file from a backup, or remove it";

// Calls storage::Salvage() with progress bars on a terminal and a scratch directory in `near`,
// which it removes afterwards.
absl::StatusOr<storage::Salvaged> SalvageInScratch(const std::string& file, const std::string& near,
                                                   const std::string& to);

model::Json ToJson(const storage::Salvaged& salvaged);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_SPOOLS_SALVAGE_REPORT_H_
