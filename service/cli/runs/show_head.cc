#include "service/cli/runs/show_head.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/base/text/shell_word.h"

namespace ranklog::cli {
namespace {

constexpr size_t kMostRanks = 32;  // of a job of many nodes, unless they have lost something

std::string StateText(const model::Run& run, const Terminal& terminal) {
  const std::string state(model::Name(run.state));
  const std::string reason = run.reason.empty() ? "" : absl::StrCat(": ", Printable(run.reason));
  switch (run.state) {
    case model::RunState::kRunning:
      return terminal.Cyan(state);
    case model::RunState::kFinished:
      return terminal.Green(state);
    case model::RunState::kFailed:
      return terminal.Red(absl::StrCat(state, ", exit code ", run.exit_code, reason));
    case model::RunState::kCrashed:
      return terminal.Red(absl::StrCat(state, reason));
  }
  return state;
}

bool IsLocal(const query::RunReport& report) {
  return std::all_of(report.destinations.begin(), report.destinations.end(),
                     [](const query::DestinationReport& one) { return one.kind == query::kLocal; });
}

std::string RankLines(const query::RunReport& report, const Terminal& terminal) {
  std::string text;
  const bool nodes = std::any_of(
      report.ranks.begin(), report.ranks.end(),
      [&](const query::RankReport& rank) { return rank.node != report.ranks.front().node; });
  size_t shown = 0;
  size_t hidden = 0;
  for (const query::RankReport& rank : report.ranks) {
    const bool well = rank.losses.total() + rank.losses.items + rank.lost_items +
                          rank.losses.values + rank.late_rows + rank.replayed_rows ==
                      0;
    if (well && shown >= kMostRanks) {
      ++hidden;
      continue;
    }
    ++shown;
    absl::StrAppend(&text, "rank ", rank.rank, ": ", rank.rows, " rows logged",
                    nodes ? absl::StrCat(" on ", Printable(rank.node)) : "");
    if (const uint64_t lost = rank.losses.total(); lost > 0) {
      absl::StrAppend(&text, ", ", terminal.Red(absl::StrCat(lost, " lost")), " (",
                      query::LossesText(rank.losses), ")");
    }
    if (const uint64_t items = rank.losses.items + rank.lost_items; items > 0) {
      absl::StrAppend(&text, ", ", terminal.Red(Counted(items, "item") + " refused or lost"));
    }
    if (rank.losses.values > 0) {
      absl::StrAppend(&text, ", ", terminal.Red(query::ValuesText(rank.losses)));
    }
    if (rank.late_rows > 0) absl::StrAppend(&text, ", ", rank.late_rows, " late");
    if (rank.replayed_rows > 0) absl::StrAppend(&text, ", ", rank.replayed_rows, " replayed");
    absl::StrAppend(&text, "\n");
  }
  if (hidden > 0) absl::StrAppend(&text, "and ", hidden, " more ranks, without a loss\n");
  return text;
}

std::string DestinationLines(const query::RunReport& report, const Terminal& terminal) {
  std::string text;
  for (const query::DestinationReport& destination : report.destinations) {
    if (destination.kind == query::kLocal) continue;  // its rows are the rows on this node
    absl::StrAppend(&text, Printable(destination.kind), ": ", destination.delivered_rows,
                    " rows delivered, ", destination.pending_rows, " pending, ",
                    destination.refused_rows, " refused", ReplayedText(destination), "\n");
    if (destination.pending_items > 0) {
      absl::StrAppend(&text, "  ", Counted(destination.pending_items, "item"),
                      " (config, summary, metric definitions) pending\n");
    }
    if (destination.pending_files > 0) {
      absl::StrAppend(&text, "  ", query::UploadsText(destination), " to upload\n");
    }
    if (!destination.url.empty()) {
      absl::StrAppend(&text, "  ", Printable(destination.url), "\n");
    }
    if (!destination.last_error.empty()) {
      absl::StrAppend(&text, "  ", terminal.Red(Printable(query::ErrorText(report, destination))),
                      "\n");
    }
  }
  return text;
}

}  // namespace

std::string HeadText(const Globals& globals, const query::RunReport& report,
                     const Terminal& terminal) {
  const model::Run& run = report.run;
  const absl::Time end = run.ended_us == 0 ? absl::Now() : absl::FromUnixMicros(run.ended_us);
  // Not negative, even if the clock was set back.
  const absl::Duration took =
      std::max(end - absl::FromUnixMicros(run.started_us), absl::ZeroDuration());
  std::string text = absl::StrCat(
      terminal.Bold(Printable(run.name.empty() ? run.run_id : run.name)), "  ",
      Printable(absl::StrCat(run.project, ":", run.run_id)), "  ", StateText(run, terminal), "\n",
      "rows ", run.rows, run.last_step < 0 ? "" : absl::StrCat(", last step ", run.last_step),
      ", started ", TimeText(run.started_us), run.ended_us == 0 ? ", for " : ", took ",
      DurationText(took), "\n");
  if (!run.primary_chosen) {
    absl::StrAppend(&text, "waits for the first rank of its node, which sets its id\n");
  } else if (run.local_only) {
    absl::StrAppend(&text, "part of a run whose rank 0 is on another node",
                    IsLocal(report) ? "; kept on this node only" : "", "\n");
    if (const std::string joined = query::JoinedText(report); !joined.empty()) {
      absl::StrAppend(&text, joined, "\n");
    }
  }
  if (const std::string heard = query::HeardText(report); !heard.empty()) {
    absl::StrAppend(&text, heard, "\n");
  }
  if (!report.stopped.empty()) {
    absl::StrAppend(&text, terminal.Red(Printable(StoppedText(report))), ": see `",
                    globals.Command("doctor"), "`\n");
  }
  if (!run.notice.empty()) {
    const std::string notice = Printable(run.notice);
    absl::StrAppend(&text, run.refused ? terminal.Red(notice) : notice, "\n");
  }
  text += RankLines(report, terminal);
  if (const std::string in_spools = InSpoolsText(report); !in_spools.empty()) {
    absl::StrAppend(&text, terminal.Red(Printable(in_spools)), "\n");
  }
  for (const std::string& unnamed : UnnamedTexts(report)) {
    absl::StrAppend(&text, terminal.Red(Printable(unnamed)), "\n");
  }
  text += DestinationLines(report, terminal);
  if (!run.local_only && IsLocal(report)) {
    absl::StrAppend(&text, "kept on this node only; run `",
                    globals.UploadCommand(Printable(ShellWord(run.run_id))), "` to upload it\n");
  }
  return text;
}

}  // namespace ranklog::cli
