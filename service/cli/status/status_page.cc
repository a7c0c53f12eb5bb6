#include "service/cli/status/status_page.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/disk_outlook.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/cli/output/table.h"
#include "service/cli/status/daemon_lines.h"
#include "service/ingest/ring/content_dir.h"
#include "service/query/run_report.h"
#include "service/storage/database/store_file.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

std::string SeeDoctor(const Overview& overview) {
  return absl::StrCat(": see `", overview.globals.Command("doctor"), "`");
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
  std::vector<std::string> lost;
  if (overview.lost() > 0) {
    lost.push_back(
        absl::StrCat(Counted(overview.lost(), "row"), ": ", query::LossesText(overview.losses)));
  }
  if (overview.losses.values > 0) lost.push_back(query::ValuesText(overview.losses));
  if (!lost.empty()) return terminal.Red(absl::StrJoin(lost, "; "));
  std::vector<std::string> zeros;
  for (const auto& [name, count] : model::kLossCounters) zeros.push_back(absl::StrCat(name, " 0"));
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

// Rows that no daemon of this directory reads or makes, and rings that could not be read.
std::string SpoolLines(const Overview& overview, const Terminal& terminal) {
  std::string text;
  if (!overview.left.empty()) {
    absl::StrAppend(&text, "spools  ", terminal.Red(UnreadSpoolsText(overview.left)), ": ",
                    overview.left_advice, "\n");
  }
  for (const StrandedSpool& spool : overview.stranded) {
    absl::StrAppend(&text, "spools  ", terminal.Red(spool.text), ": ", spool.advice, "\n");
  }
  if (!overview.unaggregated.empty()) {
    absl::StrAppend(&text, "stored  ", terminal.Red(overview.unaggregated), ": ",
                    HowToAggregate(overview.globals), "\n");
  }
  for (const query::RunReport* report : LiveRuns(overview)) {
    for (const std::string& unnamed : UnnamedTexts(*report)) {
      absl::StrAppend(&text, "spools  ", terminal.Red(Printable(unnamed)), "\n");
    }
  }
  for (const query::RunReport& report : overview.runs) {
    if (!report.stopped.empty()) {
      absl::StrAppend(&text, "stopped ", terminal.Red(Printable(StoppedText(report))),
                      SeeDoctor(overview), "\n");
    }
    for (const std::string& unread : UnreadTexts(report)) {
      absl::StrAppend(&text, "spools  ", terminal.Red(Printable(unread)), "\n");
    }
  }
  for (const std::string& path : overview.damaged_rings) {
    absl::StrAppend(&text, "damaged ", terminal.Red(Printable(path)), ", set aside",
                    SeeDoctor(overview), "\n");
  }
  return text;
}

// A table of the destinations, and why their rows wait.
std::string DestinationsText(const Overview& overview, const Terminal& terminal) {
  if (overview.destinations.empty()) return "";
  Table table({"DESTINATION", "DELIVERED", "QUEUED", "OLDEST", "REFUSED", "LAST SUCCESS",
               "LAST ERROR", "WAITS FOR"},
              {{"OLDEST"}, {"LAST ERROR"}, {"LAST SUCCESS"}});
  for (const auto& [kind, destination] : overview.destinations) {
    const std::vector<std::string> reasons = query::WaitingTexts(overview.runs, kind);
    const DaemonStatus::Destination seen = TrackerFiguresOf(overview, kind);
    table.AddRow(
        {kind, absl::StrCat(destination.delivered_rows), absl::StrCat(destination.pending_rows),
         AgoText(QueueOf(overview, kind).oldest_us), absl::StrCat(destination.refused_rows),
         AgoText(seen.last_success_us), AgoText(seen.last_error_us),
         reasons.empty() ? "nothing"
                         : absl::StrCat(reasons.size(),
                                        reasons.size() == 1 ? " reason" : " reasons", ", below")});
  }
  std::string text = absl::StrCat("\n", table.ToString(terminal));
  for (const auto& [kind, destination] : overview.destinations) {
    for (const std::string& reason : query::WaitingTexts(overview.runs, kind)) {
      absl::StrAppend(&text, Printable(kind), " waits: ", Printable(reason), "\n");
    }
    const DaemonStatus::Destination seen = TrackerFiguresOf(overview, kind);
    if (seen.last_error_us != 0) {
      absl::StrAppend(&text, Printable(kind), " failed ", AgoText(seen.last_error_us), ": ",
                      Printable(seen.last_error), "\n");
    }
  }
  return text;
}

std::string RunningText(const std::vector<const query::RunReport*>& live,
                        const Terminal& terminal) {
  if (live.empty()) return "";
  Table table({"RUNNING", "NAME", "PROJECT", "ROWS", "STEP", "RANKS", "STARTED"});
  for (const query::RunReport* report : live) {
    const model::Run& run = report->run;
    table.AddRow({run.run_id, run.name, run.project, absl::StrCat(run.rows),
                  run.last_step < 0 ? "-" : absl::StrCat(run.last_step),
                  absl::StrCat(report->ranks.size()), TimeText(run.started_us)});
  }
  return absl::StrCat("\n", table.ToString(terminal));
}

// The artifacts and files that a tracker lacks; usually none.
std::string UploadLines(const Overview& overview) {
  std::string text;
  for (const auto& [kind, destination] : overview.destinations) {
    if (destination.pending_files == 0) continue;
    absl::StrAppend(&text, "uploads ", query::UploadsText(destination), ", to ", Printable(kind),
                    "\n");
  }
  return text;
}

// The large items that are not in the store yet; usually none.
std::string ContentText(const Overview& overview) {
  if (overview.content_bytes == 0) return "";
  const int64_t quota = overview.daemon ? overview.daemon->content_quota : 0;
  return absl::StrCat("content ", BytesText(overview.content_bytes), " of large items",
                      quota > 0 ? absl::StrCat(" of ", BytesText(quota)) : "", " in ",
                      ingest::ContentDir::PathIn(overview.state_dir), "\n");
}

}  // namespace

std::string OverviewText(const Overview& overview, const Terminal& terminal) {
  const std::vector<const query::RunReport*> live = LiveRuns(overview);
  std::string text = absl::StrCat(
      "daemon  ", DaemonText(overview, terminal), "\n",  //
      "store   ", overview.state_dir, "/", storage::kStoreFile, ", ",
      BytesText(overview.store_bytes), " (", BytesText(overview.used_bytes), " in use)\n",  //
      ContentText(overview),                                                                //
      "disk    ", DiskLineText(overview, terminal), "\n",                                   //
      "runs    ", overview.runs.size(), ", ", live.size(), " of them running\n");
  if (const auto& daemon = overview.daemon) {
    absl::StrAppend(&text, "ranks   ", daemon->live_ranks, " of ",
                    Counted(daemon->live_jobs, "job"), " attached, ",
                    ShortNumber(daemon->rows_per_second, 3), " rows/s\n");
  }
  absl::StrAppend(&text, "rows    ", RowCountsText(overview, terminal), "\n", UploadLines(overview),
                  "lost    ", LostText(overview, terminal), "\n");
  text += SpoolLines(overview, terminal);
  text += DaemonLines(overview, terminal);
  text += SetApartText(overview, terminal);
  for (const std::string& path : overview.set_aside) {
    absl::StrAppend(&text, "damaged ", terminal.Red(path), ", set aside", SeeDoctor(overview),
                    "\n");
  }
  for (const query::RunReport& report : overview.runs) {
    if (!report.run.refused) continue;
    absl::StrAppend(&text, "start   ", terminal.Red(Printable(report.run.notice)), "\n");
  }
  text += DestinationsText(overview, terminal);
  text += RunningText(live, terminal);
  return text;
}

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

}  // namespace ranklog::cli
