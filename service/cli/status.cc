#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/daemon_status.h"
#include "service/cli/json_text.h"
#include "service/cli/number_text.h"
#include "service/cli/run_report.h"
#include "service/cli/table.h"
#include "service/cli/terminal.h"
#include "service/storage/damage.h"

namespace ranklog::cli {
namespace {

// At least 0: the clock may have been set back since.
absl::Duration Uptime(const DaemonStatus& daemon) {
  return std::max(absl::Now() - absl::FromUnixMicros(daemon.start_time_us), absl::ZeroDuration());
}

constexpr char kStatusFooter[] = R"(
Rows are counted per destination: queued ones wait to be delivered, refused ones were set apart (see
`ranklog dead RUN`). Late rows of a rank came after their step was closed: kept, but not in the statistics
over the ranks. Lost ones were refused by Log() itself, by reason.

Examples:
  ranklog status
  ranklog status --address unix:/run/ranklog/1000/ranklogd.sock
  ranklog status --json | jq .rows.queued)";

struct StatusFlags {
  bool json = false;
};

struct Overview {
  std::string state_dir;
  int64_t store_bytes = 0;
  int64_t used_bytes = 0;               // of the store, without its free pages
  int64_t daemon_pid = 0;               // 0: no daemon
  absl::optional<DaemonStatus> daemon;  // what it said, if it could be asked
  absl::optional<DaemonLog> log;        // of one that a rank started
  std::vector<RunReport> runs;          // newest first
  std::vector<std::string> set_aside;   // stores that were damaged
  // Sums over the runs.
  std::map<std::string, DestinationReport> destinations;
  uint64_t late_rows = 0;
  model::Losses losses;

  uint64_t queued() const { return Sum(&DestinationReport::pending_rows); }
  uint64_t delivered() const { return Sum(&DestinationReport::delivered_rows); }
  uint64_t refused() const { return Sum(&DestinationReport::refused_rows); }
  uint64_t lost() const { return losses.total(); }

 private:
  uint64_t Sum(uint64_t DestinationReport::*field) const {
    uint64_t sum = 0;
    for (const auto& [kind, destination] : destinations) sum += destination.*field;
    return sum;
  }
};

void AddUpRuns(Overview* overview) {
  for (const RunReport& report : overview->runs) {
    overview->late_rows += report.run.late_rows;
    AddLosses(report.losses, &overview->losses);
    for (const DestinationReport& one : report.destinations) {
      DestinationReport& sum = overview->destinations[one.kind];
      sum.kind = one.kind;
      sum.delivered_rows += one.delivered_rows;
      sum.pending_rows += one.pending_rows;
      sum.refused_rows += one.refused_rows;
      sum.replayed_rows += one.replayed_rows;
      if (sum.last_error.empty() && IsOpen(report, one)) {
        sum.last_error = one.last_error;  // the newest run's
      }
    }
  }
}

absl::StatusOr<Overview> TakeOverview(const Globals& globals) {
  Overview overview;
  ASSIGN_OR_RETURN(overview.state_dir, globals.StateDir());
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(overview.store_bytes, reader->FileBytes());
  ASSIGN_OR_RETURN(overview.used_bytes, reader->UsedBytes());
  overview.daemon_pid = storage::StateLock::Holder(overview.state_dir);
  if (overview.daemon_pid != 0) overview.daemon = FindDaemon(overview.state_dir, globals.address);
  overview.log = FindDaemonLog(overview.daemon ? overview.daemon->address : globals.address);
  ASSIGN_OR_RETURN(overview.runs, ReportRuns(*reader));
  overview.set_aside = storage::SetAsideStores(overview.state_dir);
  AddUpRuns(&overview);
  return overview;
}

std::vector<const RunReport*> Live(const Overview& overview) {
  std::vector<const RunReport*> live;
  for (const RunReport& report : overview.runs) {
    if (report.run.state == model::RunState::kRunning) live.push_back(&report);
  }
  return live;
}

// Destinations that are set apart, each with its run.
std::vector<std::pair<const RunReport*, const DestinationReport*>> SetApart(
    const Overview& overview) {
  std::vector<std::pair<const RunReport*, const DestinationReport*>> apart;
  for (const RunReport& report : overview.runs) {
    for (const DestinationReport& destination : report.destinations) {
      if (destination.set_apart) apart.emplace_back(&report, &destination);
    }
  }
  return apart;
}

model::Json SetApartJson(const Overview& overview) {
  model::Json apart = model::Json::array();
  for (const auto& [report, destination] : SetApart(overview)) {
    apart.push_back({{"run_id", report->run.run_id},
                     {"project", report->run.project},
                     {"kind", destination->kind},
                     {"pending_rows", destination->pending_rows},
                     {"last_error", destination->last_error}});
  }
  return apart;
}

std::string StoreTroubleOf(const Overview& overview) {
  return overview.daemon ? StoreTrouble(*overview.daemon) : "";
}

model::Json DaemonJson(const Overview& overview) {
  model::Json json = {{"running", overview.daemon_pid != 0}};
  if (overview.daemon_pid != 0) json["pid"] = overview.daemon_pid;
  if (overview.log) {
    json["log"] = overview.log->path;
    if (overview.daemon_pid == 0) json["last_words"] = overview.log->last_words;
  }
  if (!overview.daemon) return json;
  json["address"] = overview.daemon->address;
  json["version"] = overview.daemon->version;
  json["uptime_seconds"] = absl::ToDoubleSeconds(Uptime(*overview.daemon));
  json["started_by"] = overview.daemon->started_by;
  json["keep_for_seconds"] = nullptr;
  if (const auto& keep_for = overview.daemon->keep_for) {
    json["keep_for_seconds"] = absl::ToDoubleSeconds(*keep_for);
  }
  json["keep_bytes"] = nullptr;
  if (const auto& bytes = overview.daemon->keep_bytes) json["keep_bytes"] = *bytes;
  json["trouble"] = StoreTrouble(*overview.daemon);
  json["live_streams"] = overview.daemon->live_streams;
  json["counters"] = overview.daemon->counters;
  return json;
}

model::Json OverviewJson(const Overview& overview) {
  model::Json live = model::Json::array();
  for (const RunReport* report : Live(overview)) live.push_back(ToJson(*report));
  model::Json destinations = model::Json::array();
  for (const auto& [kind, destination] : overview.destinations) {
    destinations.push_back({{"kind", kind},
                            {"delivered_rows", destination.delivered_rows},
                            {"pending_rows", destination.pending_rows},
                            {"refused_rows", destination.refused_rows},
                            {"replayed_rows", destination.replayed_rows},
                            {"last_error", destination.last_error},
                            {"reasons", WaitingTexts(overview.runs, kind)}});
  }
  return {{"daemon", DaemonJson(overview)},
          {"state_dir", overview.state_dir},
          {"store",
           {{"path", overview.state_dir + "/" + storage::kStoreFile},
            {"bytes", overview.store_bytes},
            {"used_bytes", overview.used_bytes}}},
          {"set_aside", overview.set_aside},
          {"runs", overview.runs.size()},
          {"live_runs", live},
          {"rows",
           {{"queued", overview.queued()},
            {"delivered", overview.delivered()},
            {"refused", overview.refused()},
            {"late", overview.late_rows},
            {"lost", overview.lost()}}},
          {"lost", LossesJson(overview.losses)},
          {"destinations", destinations},
          {"set_apart", SetApartJson(overview)}};
}

std::string DaemonText(const Overview& overview, const Terminal& terminal) {
  if (overview.daemon_pid == 0) {
    std::string text = absl::StrCat(terminal.Dim("not running"),
                                    "; what is stored stays, and is delivered when one runs");
    if (overview.log) {
      const std::string& words = overview.log->last_words;
      if (!words.empty()) absl::StrAppend(&text, "\n        ", terminal.Red(Printable(words)));
      absl::StrAppend(&text, "\n        its log is ", overview.log->path);
    }
    return text;
  }
  std::string text = absl::StrCat(terminal.Green("running"), ", pid ", overview.daemon_pid);
  if (overview.daemon) {
    const DaemonStatus& daemon = *overview.daemon;
    absl::StrAppend(&text, ", version ", daemon.version, ", up ", DurationText(Uptime(daemon)),
                    ", started by ", daemon.started_by, ", at ", daemon.address);
    if (daemon.started_by == "rank" && overview.log) {
      absl::StrAppend(&text, ", log ", overview.log->path);
    }
  }
  return text;
}

std::string RowCountsText(const Overview& overview, const Terminal& terminal) {
  std::string text =
      absl::StrCat(overview.queued(), " queued, ", overview.delivered(), " delivered, ",
                   overview.refused(), " refused, ", overview.late_rows, " late, ");
  const std::string lost = absl::StrCat(overview.lost(), " lost");
  if (overview.lost() == 0) return text + lost;
  return absl::StrCat(text, terminal.Red(lost), " (", LossesText(overview.losses), ")");
}

// What the daemon keeps of that which is delivered; empty without one.
std::string KeepText(const Overview& overview) {
  if (!overview.daemon) return "";
  const DaemonStatus& daemon = *overview.daemon;
  std::string text = "delivered runs, ";
  if (!daemon.keep_for && !daemon.keep_bytes) return text + "for ever";
  if (daemon.keep_for) absl::StrAppend(&text, "for ", DurationText(*daemon.keep_for));
  if (daemon.keep_for && daemon.keep_bytes) text += " and ";
  if (daemon.keep_bytes) absl::StrAppend(&text, "up to ", BytesText(*daemon.keep_bytes));
  const auto removed = daemon.counters.find("store.removed_runs");
  if (removed != daemon.counters.end() && removed->second > 0) {
    absl::StrAppend(&text, "; ", removed->second, " removed since it started");
  }
  return text;
}

// Clients that the daemon sent away since it started, by what they did; empty if there were none.
std::string RefusedText(const Overview& overview) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"accept.refused_user", "of other users"},
      {"accept.refused_protocol", "that speak something else"},
      {"ingest.refused_messages", "malformed"},
      {"ingest.refused_too_large", "with a message too large"},
      {"ingest.refused_shapes", "with too many keys"},
      {"ingest.refused_streams", "over the number of streams"}};
  std::vector<std::string> parts;
  for (const auto& [name, kind] : kKinds) {
    if (!overview.daemon) break;
    const auto counter = overview.daemon->counters.find(name);
    if (counter == overview.daemon->counters.end() || counter->second == 0) continue;
    parts.push_back(absl::StrCat(counter->second, " ", kind));
  }
  return absl::StrJoin(parts, ", ");
}

// Runs that nobody delivers, since they crash whoever tries.
std::string SetApartText(const Overview& overview, const Terminal& terminal) {
  std::string text;
  for (const auto& [report, destination] : SetApart(overview)) {
    const model::Run& run = report->run;
    absl::StrAppend(&text, "apart   ", Printable(absl::StrCat(run.project, ":", run.run_id)), ", ",
                    destination->kind, ", ", Counted(destination->pending_rows, "row"),
                    " to go: ", terminal.Red(Printable(destination->last_error)), "\n");
  }
  return text;
}

std::string OverviewText(const Overview& overview, const Terminal& terminal) {
  const std::vector<const RunReport*> live = Live(overview);
  std::string text = absl::StrCat(
      "daemon  ", DaemonText(overview, terminal), "\n",  //
      "store   ", overview.state_dir, "/", storage::kStoreFile, ", ",
      BytesText(overview.store_bytes), " (", BytesText(overview.used_bytes), " in use)\n",  //
      "runs    ", overview.runs.size(), ", ", live.size(), " of them running\n",            //
      "rows    ", RowCountsText(overview, terminal), "\n");
  if (const std::string keep = KeepText(overview); !keep.empty()) {
    absl::StrAppend(&text, "keeps   ", keep, "\n");
  }
  if (const std::string refused = RefusedText(overview); !refused.empty()) {
    absl::StrAppend(&text, "clients ", terminal.Red(refused + " refused"), "\n");
  }
  if (const std::string trouble = StoreTroubleOf(overview); !trouble.empty()) {
    absl::StrAppend(&text, "store   ", terminal.Red(Printable(trouble)), "\n");
  }
  text += SetApartText(overview, terminal);
  for (const std::string& path : overview.set_aside) {
    absl::StrAppend(&text, "damaged ", terminal.Red(path), ", set aside: see `ranklog doctor`\n");
  }
  for (const RunReport& report : overview.runs) {
    if (!report.run.refused) continue;
    absl::StrAppend(&text, "start   ", terminal.Red(Printable(report.run.notice)), "\n");
  }
  if (!overview.destinations.empty()) {
    Table table({"DESTINATION", "DELIVERED", "QUEUED", "REFUSED", "WAITS FOR"});
    for (const auto& [kind, destination] : overview.destinations) {
      const std::vector<std::string> reasons = WaitingTexts(overview.runs, kind);
      table.AddRow({kind, absl::StrCat(destination.delivered_rows),
                    absl::StrCat(destination.pending_rows), absl::StrCat(destination.refused_rows),
                    reasons.empty()
                        ? "nothing"
                        : absl::StrCat(reasons.size(), reasons.size() == 1 ? " reason" : " reasons",
                                       ", below")});
    }
    absl::StrAppend(&text, "\n", table.ToString(terminal));
    for (const auto& [kind, destination] : overview.destinations) {
      for (const std::string& reason : WaitingTexts(overview.runs, kind)) {
        absl::StrAppend(&text, Printable(kind), " waits: ", Printable(reason), "\n");
      }
    }
  }
  if (!live.empty()) {
    Table table({"RUNNING", "NAME", "PROJECT", "ROWS", "STEP", "RANKS", "STARTED"});
    for (const RunReport* report : live) {
      const model::Run& run = report->run;
      table.AddRow({run.run_id, run.name, run.project, absl::StrCat(run.rows),
                    run.last_step < 0 ? "-" : absl::StrCat(run.last_step),
                    absl::StrCat(report->ranks.size()), TimeText(run.started_us)});
    }
    absl::StrAppend(&text, "\n", table.ToString(terminal));
  }
  return text;
}

absl::Status ShowStatus(const Globals& globals, const StatusFlags& flags) {
  ASSIGN_OR_RETURN(const Overview overview, TakeOverview(globals));
  std::cout << (flags.json ? PrettyJson(OverviewJson(overview))
                           : OverviewText(overview, Terminal::Of(STDOUT_FILENO)));
  return absl::OkStatus();
}

}  // namespace

void AddStatus(Program& program) {
  auto [options, flags] =
      program.Add("status", "show the daemon, the store, and what waits to be delivered",
                  kStatusFooter, ShowStatus);
  options.Add("--json", &flags.json, "an object, for programs");
}

}  // namespace ranklog::cli
