#include "service/cli/doctor/examination.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ranklog/v1/places.h"
#include "service/cli/doctor/daemon_check.h"
#include "service/cli/doctor/delivery_check.h"
#include "service/cli/doctor/node_check.h"
#include "service/cli/doctor/peer_check.h"
#include "service/cli/doctor/spool_check.h"
#include "service/cli/doctor/state_dir_check.h"
#include "service/cli/doctor/stores_check.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/spool_files.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/query/run_report.h"
#include "service/storage/directories/state_dirs.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/rows/damage.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

// Empty if the store cannot be read; the finding for the store reports that.
std::vector<query::RunReport> ReadRuns(const std::string& dir) {
  const auto reader = storage::StoreReader::Open(dir);
  if (!reader.ok()) return {};
  return query::ReportRuns(**reader).value_or(std::vector<query::RunReport>());
}

}  // namespace

std::vector<Finding> RunChecks(const Globals& globals, const std::string& state_dir, int ranks) {
  std::vector<Finding> findings = {CheckStateDir(state_dir)};
  const auto add = [&](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  add(ListSkippedDirs(state_dir));
  const int64_t pid = storage::StateLock::Holder(state_dir);
  findings.push_back(
      CheckFreeSpace(state_dir, pid == 0 ? absl::nullopt : FindDaemon(state_dir, globals.address)));
  findings.push_back(CheckSocket(globals));
  findings.push_back(CheckDaemon(globals, state_dir));
  if (pid == 0) {
    if (auto other = CheckOtherDaemon(globals, state_dir)) add({*std::move(other)});
  }
  if (auto ends = CheckSupervision(pid); pid != 0 && ends.has_value()) add({*std::move(ends)});
  add(CheckPeerSetup(pid == 0 ? absl::nullopt : FindDaemon(state_dir, globals.address)));
  if (auto clients = ListClients(state_dir); clients.has_value()) add({*std::move(clients)});
  findings.push_back(CheckStore(globals, state_dir));
  const std::vector<query::RunReport> runs = ReadRuns(state_dir);
  add(ListLostRows(runs));
  add(CheckDeliveries(globals, runs, pid != 0));
  add(CheckServers(globals, state_dir, runs));
  findings.push_back(CheckClock(runs.empty() ? 0 : runs.front().run.started_us));
  findings.push_back(CheckLimits(ranks));
  findings.push_back(CheckSpoolRoom(ranks));
  for (const std::string& dir : storage::DefaultStateDirs()) {
    std::error_code ignored;
    if (std::filesystem::equivalent(dir, state_dir, ignored)) continue;
    if (auto other = CheckOtherStore(dir); other.has_value()) {
      findings.push_back(*std::move(other));
    }
  }
  for (const std::string& path : storage::SetAsideStores(state_dir)) {
    findings.push_back(CheckSetAside(path));
  }
  add(CheckUnnamedSpools(runs));
  for (const v1::PrivateDir& dir : v1::StandardDirs()) {
    if (auto taken = CheckSpoolOwner(dir); taken.has_value()) findings.push_back(*std::move(taken));
  }
  if (auto left = CheckUnreadSpools(globals, state_dir); left.has_value()) add({*std::move(left)});
  add(CheckStrandedSpools(globals, state_dir));
  if (const std::string unaggregated = UnaggregatedRowsText(state_dir); !unaggregated.empty()) {
    findings.push_back({"rows", {{"unmade", unaggregated}}, unaggregated, HowToAggregate(globals)});
  }
  for (const std::string& dir : SpoolDirs(state_dir)) {
    if (auto spool = CheckRings(dir); spool.has_value()) findings.push_back(*std::move(spool));
  }
  return findings;
}

}  // namespace ranklog::cli
