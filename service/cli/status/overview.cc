#include "service/cli/status/overview.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/spools/spool_files.h"
#include "service/cli/output/terminal.h"
#include "service/ingest/ring/content_dir.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/rows/damage.h"

namespace ranklog::cli {
namespace {

void AddUpRuns(Overview* overview) {
  for (const query::RunReport& report : overview->runs) {
    overview->late_rows += report.run.late_rows;
    overview->losses += report.losses;
    for (const query::RankReport& rank : report.ranks) overview->lost_items += rank.lost_items;
    for (const query::DestinationReport& one : report.destinations) {
      query::DestinationReport& sum = overview->destinations[one.kind];
      sum.kind = one.kind;
      sum.delivered_rows += one.delivered_rows;
      sum.pending_rows += one.pending_rows;
      sum.refused_rows += one.refused_rows;
      sum.pending_items += one.pending_items;
      sum.replayed_rows += one.replayed_rows;
      sum.pending_files += one.pending_files;
      sum.pending_file_bytes += one.pending_file_bytes;
      if (sum.last_error.empty() && IsOpen(report, one)) {
        sum.last_error = one.last_error;  // from the newest run
      }
    }
  }
}

// Why the rows of a run are not delivered and will not be without help.
std::vector<std::string> ProblemsOfRun(const Globals& globals, const query::RunReport& report) {
  std::vector<std::string> problems;
  if (!report.stopped.empty()) problems.push_back(Printable(StoppedText(report)));
  for (const std::string& unread : UnreadTexts(report)) problems.push_back(Printable(unread));
  const auto& destinations = report.destinations;
  const bool taken_since = std::any_of(
      destinations.begin(), destinations.end(),
      [](const query::DestinationReport& to) { return to.kind != query::kLocal && to.complete; });
  if (report.run.refused && !taken_since) {
    const std::string id = Printable(report.run.run_id);
    problems.push_back(
        absl::StrCat("run ", id, " was refused and is kept on this node only; to upload it, run `",
                     globals.UploadCommand(id), "`"));
  }
  for (const query::DestinationReport& destination : destinations) {
    if (!AwaitsPerson(report, destination)) continue;
    problems.push_back(absl::StrCat("run ", Printable(report.run.run_id), " waits for ",
                                    destination.kind, ": ",
                                    Printable(query::ErrorText(report, destination))));
  }
  return problems;
}

// Unreadable rings that the daemon has found since its start and left unchanged.
uint64_t LeftRings(const Overview& overview) {
  if (!overview.daemon) return 0;
  const auto& counters = overview.daemon->counters;
  const auto counter = counters.find("ingest.left_rings");
  return counter == counters.end() ? 0 : counter->second;
}

}  // namespace

storage::Queue Overview::Queued() const {
  storage::Queue all;
  for (const auto& [kind, queue] : queues) {
    all.bytes += queue.bytes;
    if (queue.oldest_us == 0) continue;
    all.oldest_us = all.oldest_us == 0 ? queue.oldest_us : std::min(all.oldest_us, queue.oldest_us);
  }
  return all;
}

uint64_t Overview::Sum(uint64_t query::DestinationReport::*field) const {
  uint64_t sum = 0;
  for (const auto& [kind, destination] : destinations) sum += destination.*field;
  return sum;
}

absl::StatusOr<Overview> TakeOverview(const Globals& globals, bool await_ends) {
  Overview overview;
  overview.globals = globals;
  ASSIGN_OR_RETURN(overview.state_dir, globals.StateDir());
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  if (await_ends) {  // for `./train && ranklog status`
    ASSIGN_OR_RETURN(std::vector<model::Run> runs, reader->Runs());
    RETURN_IF_ERROR(AwaitEnds(globals, *reader, &runs));
  }
  ASSIGN_OR_RETURN(overview.store_bytes, reader->FileBytes());
  overview.content_bytes = ingest::ContentDir::BytesIn(overview.state_dir);
  ASSIGN_OR_RETURN(overview.used_bytes, reader->UsedBytes());
  overview.daemon_pid = storage::StateLock::Holder(overview.state_dir);
  if (overview.daemon_pid != 0) overview.daemon = FindDaemon(overview.state_dir, globals.address);
  if (overview.daemon_pid != 0 && !overview.daemon) {
    overview.silent_at = TimedOutAddress(overview.daemon_pid, globals.address);
  }
  if (!overview.daemon) overview.wrong_address = WrongAddressText(overview.state_dir);
  overview.other = FindOtherDaemon(overview.state_dir, globals.address);
  overview.log = FindDaemonLog(overview.daemon ? overview.daemon->address : globals.address);
  std::vector<UnreadSpool> spools = FindAllSpools(overview.state_dir);
  ASSIGN_OR_RETURN(overview.runs,
                   query::ReportRuns(*reader, overview.daemon ? overview.daemon->stopped_runs
                                                              : query::StoppedRuns()));
  RETURN_IF_ERROR(CountRowsInSpools(globals, overview.state_dir, std::move(spools), *reader,
                                    absl::MakeSpan(overview.runs)));
  overview.set_aside = storage::SetAsideStores(overview.state_dir);
  overview.damaged_rings = DamagedRings(overview.state_dir);
  ASSIGN_OR_RETURN(const std::vector<storage::Queue> queues, reader->Queues());
  for (const storage::Queue& queue : queues) overview.queues[queue.kind] = queue;
  overview.disk = CheckDisk(overview.state_dir, overview.daemon ? overview.daemon->growth_per_second
                                                                : absl::optional<double>());
  if (overview.daemon_pid == 0) overview.left = FindUnreadSpools(globals, overview.state_dir);
  overview.unaggregated = UnaggregatedRowsText(overview.state_dir);
  overview.left_advice = UnreadSpoolsAdvice(globals, overview.state_dir, overview.left);
  overview.stranded = FindStrandedSpools(globals, overview.state_dir);
  std::erase_if(overview.stranded, [](const StrandedSpool& spool) { return !spool.elsewhere; });
  AddUpRuns(&overview);
  return overview;
}

std::vector<std::pair<const query::RunReport*, const query::DestinationReport*>> SetApart(
    const Overview& overview) {
  std::vector<std::pair<const query::RunReport*, const query::DestinationReport*>> apart;
  for (const query::RunReport& report : overview.runs) {
    for (const query::DestinationReport& destination : report.destinations) {
      if (destination.set_apart) apart.emplace_back(&report, &destination);
    }
  }
  return apart;
}

absl::Duration Since(int64_t unix_us) {
  return std::max(absl::Now() - absl::FromUnixMicros(unix_us), absl::ZeroDuration());
}

absl::Duration Uptime(const DaemonStatus& daemon) { return Since(daemon.start_time_us); }

std::string RunIdOf(const Overview& overview, int64_t run) {
  for (const query::RunReport& report : overview.runs) {
    if (report.run.id == run) return report.run.run_id;
  }
  return "";
}

std::vector<const query::RunReport*> LiveRuns(const Overview& overview) {
  std::vector<const query::RunReport*> live;
  for (const query::RunReport& report : overview.runs) {
    if (report.run.state == model::RunState::kRunning) live.push_back(&report);
  }
  return live;
}

storage::Queue QueueOf(const Overview& overview, const std::string& kind) {
  const auto queue = overview.queues.find(kind);
  return queue == overview.queues.end() ? storage::Queue() : queue->second;
}

DaemonStatus::Destination TrackerFiguresOf(const Overview& overview, const std::string& kind) {
  if (!overview.daemon) return {};
  const auto seen = overview.daemon->destinations.find(kind);
  return seen == overview.daemon->destinations.end() ? DaemonStatus::Destination() : seen->second;
}

std::string StoreTroubleOf(const Overview& overview) {
  return overview.daemon ? StoreProblem(*overview.daemon) : "";
}

std::string SilenceText(const Overview& overview) {
  return absl::StrCat("does not answer at ", overview.silent_at, ": is it stopped?");
}

std::vector<std::string> ProblemsOf(const Overview& overview) {
  std::vector<std::string> problems;
  if (overview.daemon_pid == 0) {
    problems.push_back(overview.other ? absl::StrCat("no daemon is running for ",
                                                     Printable(overview.state_dir), "; ",
                                                     OtherDaemonText(*overview.other))
                                      : "no daemon is running");
  } else if (!overview.daemon && overview.wrong_address.empty()) {
    problems.push_back(
        overview.silent_at.empty()
            ? absl::StrCat("process ", overview.daemon_pid, " has the store, but no daemon answers")
            : absl::StrCat("the daemon, pid ", overview.daemon_pid, ", ", SilenceText(overview)));
  }
  if (!overview.wrong_address.empty()) problems.push_back(overview.wrong_address);
  if (const std::string trouble = StoreTroubleOf(overview); !trouble.empty()) {
    problems.push_back(trouble);
  }
  if (overview.disk.full()) {
    problems.push_back("the disk is full");
  } else if (const auto& lasts = overview.disk.lasts; lasts && *lasts < kSoon) {
    problems.push_back(absl::StrCat("the disk is full in ", DurationText(*lasts)));
  }
  if (!overview.left.empty()) problems.push_back(UnreadSpoolsText(overview.left));
  for (const StrandedSpool& spool : overview.stranded) problems.push_back(spool.text);
  if (!overview.unaggregated.empty()) problems.push_back(overview.unaggregated);
  if (overview.lost() > 0) {
    problems.push_back(absl::StrCat(Counted(overview.lost(), "row"),
                                    " lost: ", query::LossesText(overview.losses)));
  }
  if (const uint64_t items = overview.losses.items + overview.lost_items; items > 0) {
    problems.push_back(absl::StrCat(
        Counted(items, "item"), " (config, summary or metric definition) refused or lost: ",
        overview.losses.items, " refused by the rank, ", overview.lost_items, " lost"));
  }
  if (overview.losses.values > 0) problems.push_back(query::ValuesText(overview.losses));
  if (overview.refused() > 0) {
    problems.push_back(absl::StrCat(Counted(overview.refused(), "row"), " refused by a tracker"));
  }
  for (const query::RunReport& report : overview.runs) {
    for (std::string& problem : ProblemsOfRun(overview.globals, report)) {
      problems.push_back(std::move(problem));
    }
  }
  if (const size_t damaged = overview.damaged_rings.size(); damaged > 0) {
    problems.push_back(absl::StrCat(Counted(damaged, "ring"), " set aside as damaged: ",
                                    Printable(overview.damaged_rings.front()),
                                    damaged == 1 ? "" : " and others"));
  }
  if (const uint64_t left = LeftRings(overview); left > 0) {
    problems.push_back(absl::StrCat("the daemon cannot read ", Counted(left, "ring"), " (`",
                                    overview.globals.Command("doctor"), "`)"));
  }
  if (overview.daemon && overview.daemon->peer) {
    for (const DaemonStatus::Peer::Link& link : overview.daemon->peer->links) {
      if (!link.is_stuck()) continue;
      problems.push_back(absl::StrCat("run ", Printable(RunIdOf(overview, link.run)), " waits for ",
                                      StuckText(link)));
    }
  }
  for (const auto& [report, destination] : SetApart(overview)) {
    problems.push_back(absl::StrCat("the delivery of ", Printable(report->run.run_id), " to ",
                                    destination->kind, " is set apart"));
  }
  for (const std::string& path : overview.set_aside) {
    problems.push_back(absl::StrCat(path, " is damaged and was set aside"));
  }
  return problems;
}

}  // namespace ranklog::cli
