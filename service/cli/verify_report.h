// What `ranklog verify` found, for people and programs.

#ifndef SERVICE_CLI_VERIFY_REPORT_H_
#define SERVICE_CLI_VERIFY_REPORT_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "service/cli/findings.h"
#include "service/cli/run_report.h"
#include "service/cli/store_check.h"
#include "service/cli/terminal.h"
#include "service/deliver/wandb/read_back.h"

namespace ranklog::cli {

struct DestinationCheck {
  DestinationReport report;
  absl::optional<deliver::wandb::ReadBackReport> read_back;  // of a tracker that was read back
  std::string error;                                         // why it was not
};

struct VerifyReport {
  RunReport run;
  StoreCheck store;
  std::vector<DestinationCheck> destinations;

  // Every row that Log() took is in the store, undamaged, and at every destination, once and with
  // its values.
  bool ok() const;
};

// Why a rank or a destination is not all there; empty: it is.
Findings ProblemsOf(const RankCheck& rank);
Findings ProblemsOf(const VerifyReport& report, const DestinationCheck& destination);

// As `ranklog verify --json` has it, an interface to scripts; service/README.md describes it.
model::Json ToJson(const VerifyReport& report);
std::string ToText(const VerifyReport& report, const Terminal& terminal);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_VERIFY_REPORT_H_
