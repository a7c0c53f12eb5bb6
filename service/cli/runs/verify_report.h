// What `ranklog verify` found, and which of it are problems.

#ifndef SERVICE_CLI_RUNS_VERIFY_REPORT_H_
#define SERVICE_CLI_RUNS_VERIFY_REPORT_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "service/cli/node/globals.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/deliver/read_back.h"
#include "service/query/findings.h"
#include "service/query/run_report.h"
#include "service/query/store_check.h"

namespace ranklog::cli {

struct DestinationCheck {
  query::DestinationReport report;
  absl::optional<deliver::ReadBackReport> read_back;  // if the tracker was read back
  std::string error;                                  // why it was not read back
};

struct VerifyReport {
  Globals globals;  // how the command was called, for the commands in messages
  query::RunReport run;
  std::vector<UnreadSpool> spools;  // of the run, with data that the store lacked at the start
  query::StoreCheck store;
  std::vector<DestinationCheck> destinations;

  // Every row that Log() accepted is in the store, undamaged, and at every destination, once and
  // with its values.
  bool ok() const;
};

// The problems of the spools, a rank or a destination; empty if nothing is missing.
query::Findings ProblemsOf(const std::vector<UnreadSpool>& spools);
// Of the rows that join those of rank 0 on another node.
query::Findings ProblemsOf(const query::RunReport& run);
query::Findings ProblemsOf(const query::RankCheck& rank);
query::Findings ProblemsOf(const VerifyReport& report, const DestinationCheck& destination);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUNS_VERIFY_REPORT_H_
