#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "service/base/number_text.h"
#include "service/base/printable.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/disk_outlook.h"
#include "service/cli/node/left_spools.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/table.h"
#include "service/cli/output/terminal.h"
#include "service/cli/overview.h"
#include "service/query/run_report.h"

namespace ranklog::cli {
namespace {

// Not negative, even if the clock was set back.
absl::Duration Since(int64_t unix_us) {
  return std::max(absl::Now() - absl::FromUnixMicros(unix_us), absl::ZeroDuration());
}
absl::Duration Uptime(const DaemonStatus& daemon) { return Since(daemon.start_time_us); }

constexpr char kStatusFooter[] = R"(
Rows are counted per destination: queued rows wait to be delivered, refused rows were set apart (see
`ranklog dead RUN`). Late rows of a rank came after their step was closed: they are stored, but not in the
statistics over the ranks. Lost rows were refused by Log(), by reason. The last success and failure are those
since the daemon's start.

--watch redraws the page at each --interval, until Ctrl-C, as far as it fits into the terminal. If stdout is not a
terminal, it prints one line each time, of KEY=VALUE pairs, or with --json an object.

--check is for monitoring. Exit code 0: no problem. 1: a problem, described on stderr: no daemon is running, or none
answers; rows cannot be stored; the disk is full, or will be within a day; rows were lost or refused; rows of a run
cannot be aggregated; a delivery, or a damaged store or ring, was set apart; a ring could not be read; a start was
refused; a run waits for a person: for a key, for a permission (HTTP 401, 403), for a run that resume=must needs.
Other tracker errors do not count, because rows wait for the tracker. 2: wrong usage.
Without --check the exit code is 0 if the store can be read, else 1.

Examples:
  ranklog status
  ranklog status --watch
  ranklog status --watch --interval 10s >> status.log
  ranklog status --check >/dev/null || mail -s "ranklog: $HOSTNAME" me
  ranklog status --address unix:/run/ranklog/1000/ranklogd.sock
  ranklog status --json | jq .rows.queued)";

struct StatusFlags {
  bool json = false;
  bool check = false;
  bool watch = false;
  std::string interval;
  int times = 0;  // 0: until Ctrl-C
};

constexpr absl::Duration kInterval = absl::Seconds(2);  // same as watch(1)

std::vector<const query::RunReport*> Live(const Overview& overview) {
  std::vector<const query::RunReport*> live;
  for (const query::RunReport& report : overview.runs) {
    if (report.run.state == model::RunState::kRunning) live.push_back(&report);
  }
  return live;
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
  json["trouble"] = StoreProblem(*overview.daemon);
  json["live_streams"] = overview.daemon->live_streams;
  json["live_jobs"] = overview.daemon->live_jobs;
  json["live_ranks"] = overview.daemon->live_ranks;
  json["rows_per_second"] = overview.daemon->rows_per_second;
  json["metrics_url"] = overview.daemon->metrics_url;
  json["counters"] = overview.daemon->counters;
  return json;
}

storage::Queue QueueOf(const Overview& overview, const std::string& kind) {
  const auto queue = overview.queues.find(kind);
  return queue == overview.queues.end() ? storage::Queue() : queue->second;
}

// The daemon's figures for a tracker, if a daemon runs.
DaemonStatus::Destination SeenOf(const Overview& overview, const std::string& kind) {
  if (!overview.daemon) return {};
  const auto seen = overview.daemon->destinations.find(kind);
  return seen == overview.daemon->destinations.end() ? DaemonStatus::Destination() : seen->second;
}

model::Json SecondsOrNull(int64_t unix_us) {
  return unix_us == 0 ? model::Json() : model::Json(static_cast<double>(unix_us) / 1e6);
}

model::Json DiskJson(const DiskOutlook& disk) {
  model::Json json = {{"bytes", disk.bytes},
                      {"free_bytes", disk.free_bytes},
                      {"growth_bytes_per_second", disk.growth_per_second},
                      {"full_in_seconds", nullptr}};
  if (disk.lasts) json["full_in_seconds"] = absl::ToDoubleSeconds(*disk.lasts);
  return json;
}

model::Json OverviewJson(const Overview& overview) {
  model::Json live = model::Json::array();
  for (const query::RunReport* report : Live(overview)) live.push_back(ToJson(*report));
  model::Json destinations = model::Json::array();
  for (const auto& [kind, destination] : overview.destinations) {
    const storage::Queue queue = QueueOf(overview, kind);
    const DaemonStatus::Destination seen = SeenOf(overview, kind);
    destinations.push_back({{"kind", kind},
                            {"pending_bytes", queue.bytes},
                            {"oldest_pending", SecondsOrNull(queue.oldest_us)},
                            {"last_success", SecondsOrNull(seen.last_success_us)},
                            {"last_failure", SecondsOrNull(seen.last_error_us)},
                            {"last_failure_error", seen.last_error},
                            {"delivered_rows", destination.delivered_rows},
                            {"pending_rows", destination.pending_rows},
                            {"refused_rows", destination.refused_rows},
                            {"replayed_rows", destination.replayed_rows},
                            {"last_error", destination.last_error},
                            {"reasons", query::WaitingTexts(overview.runs, kind)}});
  }
  return {{"daemon", DaemonJson(overview)},
          {"state_dir", overview.state_dir},
          {"store",
           {{"path", overview.state_dir + "/" + storage::kStoreFile},
            {"bytes", overview.store_bytes},
            {"used_bytes", overview.used_bytes}}},
          {"disk", DiskJson(overview.disk)},
          {"set_aside", overview.set_aside},
          {"damaged_rings", overview.damaged_rings},
          {"runs", overview.runs.size()},
          {"live_runs", live},
          {"rows",
           {{"queued", overview.queued()},
            {"queued_bytes", overview.Queued().bytes},
            {"oldest_queued", SecondsOrNull(overview.Queued().oldest_us)},
            {"in_spools", LeftRows(overview.left)},
            {"delivered", overview.delivered()},
            {"refused", overview.refused()},
            {"late", overview.late_rows},
            {"lost", overview.lost()}}},
          {"lost", query::LossesJson(overview.losses)},
          {"destinations", destinations},
          {"set_apart", SetApartJson(overview)},
          {"problems", ProblemsOf(overview)}};
}

std::string DaemonText(const Overview& overview, const Terminal& terminal) {
  if (overview.daemon_pid == 0) {
    std::string text =
        absl::StrCat(terminal.Dim("not running"), "; stored rows are delivered when one runs");
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
  } else if (!overview.silent_at.empty()) {
    absl::StrAppend(&text, ", but ", terminal.Red(SilenceText(overview)));
  }
  return text;
}

std::string RowCountsText(const Overview& overview, const Terminal& terminal) {
  const storage::Queue queued = overview.Queued();
  std::string waiting;
  if (queued.oldest_us != 0) {
    waiting = absl::StrCat(" (", BytesText(static_cast<int64_t>(queued.bytes)), ", for up to ",
                           DurationText(Since(queued.oldest_us)), ")");
  }
  const std::string refused = absl::StrCat(overview.refused(), " refused");
  return absl::StrCat(overview.queued(), " queued", waiting, ", ", overview.delivered(),
                      " delivered, ", overview.refused() == 0 ? refused : terminal.Red(refused),
                      ", ", overview.late_rows, " late");
}

// Lists all reasons, so that users learn what could be lost.
std::string LostText(const Overview& overview, const Terminal& terminal) {
  if (overview.lost() > 0) {
    return terminal.Red(
        absl::StrCat(Counted(overview.lost(), "row"), ": ", query::LossesText(overview.losses)));
  }
  std::vector<std::string> zeros;
  for (const auto& [name, rows] : model::kLossReasons) zeros.push_back(absl::StrCat(name, " 0"));
  return terminal.Green(absl::StrJoin(zeros, ", "));
}

std::string DiskLineText(const Overview& overview, const Terminal& terminal) {
  const std::string text = DiskText(overview.disk);
  const auto& lasts = overview.disk.lasts;
  const bool soon = overview.disk.full() || (lasts && *lasts < kSoon);
  return soon ? terminal.Red(text) : text;
}

std::string AgoText(int64_t unix_us) {
  return unix_us == 0 ? "-" : DurationText(Since(unix_us)) + " ago";
}

// How long the daemon keeps delivered runs; empty without a daemon.
std::string KeepText(const Overview& overview) {
  if (!overview.daemon) return "";
  const DaemonStatus& daemon = *overview.daemon;
  std::string text = "delivered runs, ";
  if (!daemon.keep_for && !daemon.keep_bytes) return text + "forever";
  if (daemon.keep_for) absl::StrAppend(&text, "for ", DurationText(*daemon.keep_for));
  if (daemon.keep_for && daemon.keep_bytes) text += " and ";
  if (daemon.keep_bytes) absl::StrAppend(&text, "up to ", BytesText(*daemon.keep_bytes));
  const auto removed = daemon.counters.find("store.removed_runs");
  if (removed != daemon.counters.end() && removed->second > 0) {
    absl::StrAppend(&text, "; ", removed->second, " removed since it started");
  }
  return text;
}

// Clients that the daemon has refused since its start, by reason; empty if there are none.
std::string RefusedText(const Overview& overview) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"accept.refused_user", "of other users"},
      {"accept.refused_protocol", "with another protocol"},
      {"ingest.refused_versions", "of another version"},
      {"ingest.left_rings", "with an unreadable spool (`ranklog doctor`)"},
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

// Runs that are not delivered because their delivery crashes the process.
std::string SetApartText(const Overview& overview, const Terminal& terminal) {
  std::string text;
  for (const auto& [report, destination] : SetApart(overview)) {
    const model::Run& run = report->run;
    absl::StrAppend(&text, "apart   ", Printable(absl::StrCat(run.project, ":", run.run_id)), ", ",
                    destination->kind, ", ", Counted(destination->pending_rows, "row"),
                    " to deliver: ", terminal.Red(Printable(destination->last_error)), "\n");
  }
  return text;
}

std::string OverviewText(const Overview& overview, const Terminal& terminal) {
  const std::vector<const query::RunReport*> live = Live(overview);
  std::string text = absl::StrCat(
      "daemon  ", DaemonText(overview, terminal), "\n",  //
      "store   ", overview.state_dir, "/", storage::kStoreFile, ", ",
      BytesText(overview.store_bytes), " (", BytesText(overview.used_bytes), " in use)\n",  //
      "disk    ", DiskLineText(overview, terminal), "\n",                                   //
      "runs    ", overview.runs.size(), ", ", live.size(), " of them running\n");
  if (const auto& daemon = overview.daemon) {
    absl::StrAppend(&text, "ranks   ", daemon->live_ranks, " of ",
                    Counted(daemon->live_jobs, "job"), " attached, ",
                    ShortNumber(daemon->rows_per_second, 3), " rows/s\n");
  }
  absl::StrAppend(&text, "rows    ", RowCountsText(overview, terminal), "\n",  //
                  "lost    ", LostText(overview, terminal), "\n");
  if (!overview.left.empty()) {
    absl::StrAppend(&text, "spools  ", terminal.Red(LeftSpoolsText(overview.left)), ": ",
                    overview.left_advice, "\n");
  }
  if (!overview.unmade.empty()) {
    absl::StrAppend(&text, "stored  ", terminal.Red(overview.unmade), ": ", kHowToAggregate, "\n");
  }
  for (const query::RunReport* report : live) {
    for (const std::string& unnamed : UnnamedTexts(*report)) {
      absl::StrAppend(&text, "spools  ", terminal.Red(Printable(unnamed)), "\n");
    }
  }
  for (const query::RunReport& report : overview.runs) {
    if (!report.stopped.empty()) {
      absl::StrAppend(&text, "stopped ", terminal.Red(Printable(StoppedText(report))),
                      ": see `ranklog doctor`\n");
    }
    for (const std::string& unread : UnreadTexts(report)) {
      absl::StrAppend(&text, "spools  ", terminal.Red(Printable(unread)), "\n");
    }
  }
  for (const std::string& path : overview.damaged_rings) {
    absl::StrAppend(&text, "damaged ", terminal.Red(Printable(path)),
                    ", set aside: see `ranklog doctor`\n");
  }
  if (const std::string keep = KeepText(overview); !keep.empty()) {
    absl::StrAppend(&text, "keeps   ", keep, "\n");
  }
  if (overview.daemon && !overview.daemon->metrics_url.empty()) {
    absl::StrAppend(&text, "metrics ", overview.daemon->metrics_url, "\n");
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
  for (const query::RunReport& report : overview.runs) {
    if (!report.run.refused) continue;
    absl::StrAppend(&text, "start   ", terminal.Red(Printable(report.run.notice)), "\n");
  }
  if (!overview.destinations.empty()) {
    Table table({"DESTINATION", "DELIVERED", "QUEUED", "OLDEST", "REFUSED", "LAST SUCCESS",
                 "LAST ERROR", "WAITS FOR"},
                {{"OLDEST"}, {"LAST ERROR"}, {"LAST SUCCESS"}});
    for (const auto& [kind, destination] : overview.destinations) {
      const std::vector<std::string> reasons = query::WaitingTexts(overview.runs, kind);
      const DaemonStatus::Destination seen = SeenOf(overview, kind);
      table.AddRow(
          {kind, absl::StrCat(destination.delivered_rows), absl::StrCat(destination.pending_rows),
           AgoText(QueueOf(overview, kind).oldest_us), absl::StrCat(destination.refused_rows),
           AgoText(seen.last_success_us), AgoText(seen.last_error_us),
           reasons.empty()
               ? "nothing"
               : absl::StrCat(reasons.size(), reasons.size() == 1 ? " reason" : " reasons",
                              ", below")});
    }
    absl::StrAppend(&text, "\n", table.ToString(terminal));
    for (const auto& [kind, destination] : overview.destinations) {
      for (const std::string& reason : query::WaitingTexts(overview.runs, kind)) {
        absl::StrAppend(&text, Printable(kind), " waits: ", Printable(reason), "\n");
      }
      const DaemonStatus::Destination seen = SeenOf(overview, kind);
      if (seen.last_error_us != 0) {
        absl::StrAppend(&text, Printable(kind), " failed ", AgoText(seen.last_error_us), ": ",
                        Printable(seen.last_error), "\n");
      }
    }
  }
  if (!live.empty()) {
    Table table({"RUNNING", "NAME", "PROJECT", "ROWS", "STEP", "RANKS", "STARTED"});
    for (const query::RunReport* report : live) {
      const model::Run& run = report->run;
      table.AddRow({run.run_id, run.name, run.project, absl::StrCat(run.rows),
                    run.last_step < 0 ? "-" : absl::StrCat(run.last_step),
                    absl::StrCat(report->ranks.size()), TimeText(run.started_us)});
    }
    absl::StrAppend(&text, "\n", table.ToString(terminal));
  }
  return text;
}

// One line with the changing figures, for a log.
std::string OverviewLine(const Overview& overview) {
  const storage::Queue queued = overview.Queued();
  const DaemonStatus daemon = overview.daemon.value_or(DaemonStatus());
  return absl::StrCat(
      "time=", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()),
      " daemon=", overview.daemon_pid != 0 ? "running" : "none", " jobs=", daemon.live_jobs,
      " ranks=", daemon.live_ranks, " rows_per_second=", ShortNumber(daemon.rows_per_second),
      " queued=", overview.queued(), " queued_bytes=", queued.bytes, " queued_seconds=",
      queued.oldest_us == 0 ? "0" : ShortNumber(absl::ToDoubleSeconds(Since(queued.oldest_us))),
      " delivered=", overview.delivered(), " refused=", overview.refused(),
      " late=", overview.late_rows, " lost=", overview.lost(),
      " disk_free_bytes=", overview.disk.free_bytes, "\n");
}

// Draws over the old page without flicker: each line erases the rest of the old line.
std::string Redrawn(const std::string& page) {
  return absl::StrCat("\033[H", absl::StrReplaceAll(page, {{"\n", "\033[K\n"}}), "\033[J");
}

bool CanRedraw(const Terminal& terminal) {
  const char* const term = std::getenv("TERM");
  return terminal.interactive && (term == nullptr || absl::string_view(term) != "dumb");
}

void Show(const Overview& overview, const StatusFlags& flags) {
  const Terminal terminal = Terminal::Of(STDOUT_FILENO);
  const bool page = !flags.watch || CanRedraw(terminal);
  if (flags.json) {
    std::cout << (flags.watch ? LineJson(OverviewJson(overview))
                              : PrettyJson(OverviewJson(overview)));
  } else if (!page) {
    std::cout << OverviewLine(overview);
  } else {
    const std::string text = OverviewText(overview, terminal);
    std::cout << (flags.watch ? Redrawn(CutPage(text, terminal.width, terminal.height)) : text);
  }
}

absl::Status ShowStatus(const Globals& globals, const StatusFlags& flags) {
  if (!flags.watch && (!flags.interval.empty() || flags.times != 0)) {
    return WrongUsage("--interval and --times need --watch");
  }
  if (flags.watch && flags.check) return WrongUsage("--check and --watch exclude each other");
  absl::Duration interval = kInterval;
  // Cannot fail: the option's check accepted it.
  if (!flags.interval.empty()) absl::ParseDuration(flags.interval, &interval);
  for (int shown = 0;; absl::SleepFor(interval)) {
    ASSIGN_OR_RETURN(const Overview overview, TakeOverview(globals, /*await_ends=*/!flags.watch));
    Show(overview, flags);
    if (!std::cout.flush()) return absl::UnavailableError("cannot write the output");
    if (flags.watch && ++shown != flags.times) continue;
    const std::vector<std::string> problems = ProblemsOf(overview);
    if (!flags.check || problems.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrJoin(problems, "; "));
  }
}

}  // namespace

void AddStatus(Program& program) {
  auto [options, flags] = program.Add(
      "status", "show the daemon, the store, and waiting deliveries", kStatusFooter, ShowStatus);
  options.Add("--json", &flags.json, "print an object, for programs");
  options.Add("--check", &flags.check, "exit code 1 if there is a problem, for monitoring");
  options.Add("--watch", &flags.watch, "refresh until Ctrl-C");
  options.Add("--interval", &flags.interval, "time between updates; default 2s",
              {.type = "DURATION", .check = CheckDuration});
  options.Add("--times", &flags.times, "stop after this number of updates",
              {.type = "N", .least = 1, .most = 1000000});
}

}  // namespace ranklog::cli
