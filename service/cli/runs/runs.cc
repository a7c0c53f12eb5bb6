#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/stranded_spools.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/table.h"
#include "service/cli/output/terminal.h"
#include "service/query/run_report.h"

namespace ranklog::cli {
namespace {

constexpr char kRunsFooter[] = R"(
DELIVERED is the number of rows at each destination, +N the rows that wait for it. A narrow terminal shows fewer
columns and cuts long names; --json has everything.

Examples:
  ranklog runs
  ranklog runs -n 20
  ranklog runs --project gpt --state running
  ranklog runs --json | jq '.[0].ranks')";

struct RunsFlags {
  bool json = false;
  std::string project;
  std::string state;
  size_t limit = 0;  // 0: all
};

std::string DestinationText(const Globals& globals, const query::DestinationReport& destination) {
  std::string text = absl::StrCat(destination.kind, " ", destination.delivered_rows);
  if (destination.pending_rows > 0) absl::StrAppend(&text, " +", destination.pending_rows);
  if (destination.refused_rows > 0) {
    absl::StrAppend(&text, " (", destination.refused_rows, " refused)");
  }
  if (destination.replayed_rows > 0) {
    absl::StrAppend(&text, " (", destination.replayed_rows, " replayed)");
  }
  if (destination.set_apart) {
    absl::StrAppend(&text, " (set apart: see `", globals.Command("status"), "`)");
  }
  return text;
}

// Shortens "2026-11-22 13:23:03" to "11-22 13:23".
std::string WithoutYear(const std::string& time) {
  constexpr size_t kYear = 5, kDayAndTime = 11;
  return time.size() > kYear ? time.substr(kYear, kDayAndTime) : time;
}

// Of the run's page at its first tracker that has one.
std::string UrlOf(const query::RunReport& report) {
  for (const query::DestinationReport& destination : report.destinations) {
    if (!destination.url.empty()) return destination.url;
  }
  return "";
}

std::string TableOf(const Globals& globals, const std::vector<query::RunReport>& reports) {
  const auto any = [&](uint64_t model::Run::*rows) {
    return std::any_of(reports.begin(), reports.end(),
                       [rows](const query::RunReport& report) { return report.run.*rows > 0; });
  };
  const bool late = any(&model::Run::late_rows);
  const bool replayed = any(&model::Run::replayed_rows);
  std::vector<std::string> head = {"RUN",  "NAME", "PROJECT", "STATE",
                                   "ROWS", "STEP", "RANKS",   "LOST"};
  if (late) head.push_back("LATE");
  if (replayed) head.push_back("REPLAYED");
  head.insert(head.end(), {"STARTED", "DELIVERED"});
  const bool url = std::any_of(reports.begin(), reports.end(),
                               [](const auto& report) { return !UrlOf(report).empty(); });
  if (url) head.push_back("URL");
  Table table(head,
              {{"URL"}, {"STARTED", WithoutYear}, {"RANKS"}, {"NAME"}, {"PROJECT"}, {"STARTED"}});
  for (const query::RunReport& report : reports) {
    const model::Run& run = report.run;
    std::vector<std::string> row = {run.run_id,
                                    run.name,
                                    run.project,
                                    std::string(model::Name(run.state)),
                                    absl::StrCat(run.rows),
                                    run.last_step < 0 ? "-" : absl::StrCat(run.last_step),
                                    absl::StrCat(report.ranks.size()),
                                    absl::StrCat(report.losses.total())};
    if (late) row.push_back(absl::StrCat(run.late_rows));
    if (replayed) row.push_back(absl::StrCat(run.replayed_rows));
    row.push_back(TimeText(run.started_us));
    row.push_back(absl::StrJoin(report.destinations, ", ",
                                [&](std::string* out, const query::DestinationReport& destination) {
                                  out->append(DestinationText(globals, destination));
                                }));
    if (url) row.push_back(UrlOf(report));
    table.AddRow(row);
  }
  const Terminal terminal = Terminal::Of(STDOUT_FILENO);
  std::string text = table.ToString(terminal);
  std::set<std::string> notices;  // runs of one job have the same notice
  for (const query::RunReport& report : reports) {
    const std::string notice = Printable(report.run.notice);
    if (notice.empty() || !notices.insert(notice).second) continue;
    absl::StrAppend(&text, report.run.refused ? terminal.Red(notice) : notice, "\n");
  }
  for (const query::RunReport& report : reports) {
    for (const std::string& unnamed : UnnamedTexts(report)) {
      absl::StrAppend(&text, terminal.Red(Printable(unnamed)), "\n");
    }
    if (const std::string in_spools = InSpoolsText(report); !in_spools.empty()) {
      absl::StrAppend(&text, terminal.Red(Printable(in_spools)), "\n");
    }
    if (!report.stopped.empty()) {
      absl::StrAppend(&text, terminal.Red(Printable(StoppedText(report))), ": see `",
                      globals.Command("doctor"), "`\n");
    }
  }
  return text;
}

// Why the rows of each run wait.
std::string WaitingText(const std::vector<query::RunReport>& reports) {
  std::string text;
  for (const query::RunReport& report : reports) {
    for (const query::DestinationReport& destination : report.destinations) {
      if (destination.last_error.empty() || !IsOpen(report, destination)) continue;
      absl::StrAppend(&text, Printable(report.run.run_id), " waits for ",
                      Printable(destination.kind), ": ",
                      Printable(query::ErrorText(report, destination)), "\n");
    }
  }
  return text.empty() ? text : "\n" + text;
}

absl::Status ListRuns(const Globals& globals, const RunsFlags& flags) {
  ASSIGN_OR_RETURN(const std::string state_dir, globals.StateDir());
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  WarnOfUnreadRows(globals);
  if (const size_t stranded = FindStrandedSpools(globals, state_dir).size(); stranded > 0) {
    std::cerr << Counted(stranded, "spool") << (stranded == 1 ? " has" : " have")
              << " rows that no daemon of this directory takes: to see why, run `"
              << globals.Command("doctor") << "`\n";
  }
  AwaitNewRuns(globals);
  ASSIGN_OR_RETURN(std::vector<model::Run> runs, reader->Runs());
  RETURN_IF_ERROR(AwaitEnds(globals, *reader, &runs));  // for `./train && ranklog runs`
  const absl::optional<DaemonStatus> daemon = FindDaemon(state_dir, globals.address);
  std::vector<UnreadSpool> spools = FindAllSpools(state_dir);
  ASSIGN_OR_RETURN(
      std::vector<query::RunReport> reports,
      query::ReportRuns(*reader, daemon ? daemon->stopped_runs : query::StoppedRuns()));
  RETURN_IF_ERROR(
      CountRowsInSpools(globals, state_dir, std::move(spools), *reader, absl::MakeSpan(reports)));
  std::erase_if(reports, [&](const query::RunReport& report) {
    return (!flags.project.empty() && report.run.project != flags.project) ||
           (!flags.state.empty() && model::Name(report.run.state) != flags.state);
  });
  size_t left_out = 0;
  if (flags.limit > 0 && reports.size() > flags.limit) {
    left_out = reports.size() - flags.limit;
    reports.resize(flags.limit);
  }
  if (flags.json) {
    std::cout << PrettyJsonArray(reports.size(), [&](size_t i) { return ToJson(reports[i]); });
  } else if (reports.empty()) {
    std::cout << "no runs\n";
  } else {
    std::cout << TableOf(globals, reports) << WaitingText(reports);
    if (left_out > 0) std::cout << "and " << left_out << " older\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddRuns(Program& program) {
  auto [options, flags] = program.Add("runs", "list the runs, newest first", kRunsFooter, ListRuns);
  options.Add("--json", &flags.json, "print an array of objects, for programs");
  options.Add("--project", &flags.project, "only runs of this project", {.type = "NAME"});
  options.Add("--state", &flags.state, "only runs in this state",
              {.one_of = {"running", "finished", "failed", "crashed"}});
  options.Add("-n,--limit", &flags.limit, "only the newest N runs",
              {.type = "N", .check = CheckPositive});
}

}  // namespace ranklog::cli
