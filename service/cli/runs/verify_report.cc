#include "service/cli/runs/verify_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "service/base/text/number_text.h"
#include "service/deliver/destination.h"

namespace ranklog::cli {
namespace {

using deliver::HistoryDiff;

void AddDocument(const char* name, const deliver::DocumentDiff& diff, query::Findings* problems) {
  for (const std::string& text : diff.problems) {
    problems->Add(absl::StrCat(name, ": ", text));
  }
  const uint64_t all = diff.missing + diff.differing + diff.unexpected;
  if (const uint64_t more = all - diff.problems.size(); more > 0) {
    problems->Add(absl::StrCat(name, ": ", more, " more like these"));
  }
}

void AddReadBack(const deliver::ReadBackReport& read_back, bool complete,
                 query::Findings* problems) {
  const HistoryDiff& diff = read_back.diff;
  if (diff.missing > 0) {
    problems->Add(absl::StrCat(Counted(diff.missing, "row"), " missing"));
    for (const HistoryDiff::Rows& gap : diff.gaps) {
      problems->Add(absl::StrCat(RowsText(gap.first, gap.last), ": missing"));
    }
  }
  for (const HistoryDiff::Difference& difference : diff.differences) {
    problems->Add(absl::StrCat("row ", difference.row, ": ", difference.text));
  }
  if (diff.duplicates > 0) problems->Add(Counted(diff.duplicates, "line") + " duplicated");
  if (diff.unexpected > 0) problems->Add(Counted(diff.unexpected, "line") + " without a row");
  if (!read_back.LineCountFits(complete)) {
    problems->Add(absl::StrCat("the server counts ", read_back.lines, " lines, not ",
                               read_back.expected_lines()));
  }
  AddDocument("config", read_back.config, problems);
  AddDocument("summary", read_back.summary, problems);
}

}  // namespace

query::Findings ProblemsOf(const std::vector<UnreadSpool>& spools) {
  query::Findings problems;
  if (UnreadRows(spools) > 0) problems.Add(UnreadSpoolsText(spools));
  return problems;
}

query::Findings ProblemsOf(const query::RankCheck& rank) {
  query::Findings problems = rank.findings;
  if (rank.intact != rank.rows && rank.findings.empty()) {
    problems.Add(absl::StrCat(rank.intact, " of ", rank.rows, " rows are there"));
  }
  if (rank.intact_items < rank.items && rank.findings.empty()) {
    problems.Add(absl::StrCat(rank.intact_items, " of ", rank.items, " items are there"));
  }
  if (rank.lost_items > 0) {
    problems.Add(Counted(rank.lost_items, "item") + " lost with an earlier store, or unreadable");
  }
  if (rank.waiting > 0) {
    problems.Add(Counted(rank.waiting, "row") + " not yet in the run: their steps are open");
  }
  if (rank.late > 0) {
    problems.Add(Counted(rank.late, "row") + " too late for the run: kept on this node only");
  }
  if (rank.losses.with_store > 0) {
    problems.Add(Counted(rank.losses.with_store, "row") + " lost with an earlier store");
  }
  return problems;
}

query::Findings ProblemsOf(const VerifyReport& report, const DestinationCheck& destination) {
  query::Findings problems;
  const query::DestinationReport& stored = destination.report;
  if (stored.kind == query::kLocal) return report.store.findings;
  if (!destination.error.empty()) problems.Add(destination.error);
  if (stored.pending_rows > 0 || stored.pending_items > 0) {
    problems.Add(absl::StrCat(Counted(stored.pending_rows, "row"), " and ",
                              Counted(stored.pending_items, "item"), " not yet delivered"));
  } else if (!stored.complete && report.run.run.state != model::RunState::kRunning) {
    problems.Add("the run's end is not yet delivered");
  }
  if (stored.set_apart) problems.Add(stored.last_error);
  if (stored.refused_rows > 0) {
    problems.Add(absl::StrCat(Counted(stored.refused_rows, "row"), " refused; see `",
                              report.globals.Command("dead " + report.run.run.run_id), "`"));
  }
  if (destination.read_back.has_value()) {
    if (const HistoryDiff& diff = destination.read_back->diff; diff.not_held > 0) {
      constexpr size_t kMostKeys = 10;
      const std::vector<std::string> keys(diff.not_held_keys.begin(), diff.not_held_keys.end());
      problems.Add(absl::StrCat(
          Counted(diff.not_held, "row"), " there without values that ",
          deliver::FindDestination(stored.kind)->words().name,
          " cannot hold: ", absl::StrJoin(absl::MakeConstSpan(keys).subspan(0, kMostKeys), ", "),
          keys.size() > kMostKeys ? ", ..." : "", "; see `",
          report.globals.Command("dead " + report.run.run.run_id), "`"));
    }
    AddReadBack(*destination.read_back, stored.complete, &problems);
  }
  return problems;
}

query::Findings ProblemsOf(const query::RunReport& run) {
  query::Findings problems;
  if (!run.joined) return problems;
  if (run.joined->late > 0) {
    problems.Add(Counted(run.joined->late, "row") +
                 " came to rank 0's node too late: stored, but in no row of its run");
  }
  if (run.joined->complete || run.run.state == model::RunState::kRunning) return problems;
  if (const uint64_t waiting = run.joined->waiting(); waiting > 0) {
    problems.Add(Counted(waiting, "row") + " not yet sent to rank 0's node");
  } else {
    problems.Add("rank 0's node has not told yet whether rows came too late");
  }
  return problems;
}

bool VerifyReport::ok() const {
  return store.ok() && ProblemsOf(run).empty() && ProblemsOf(spools).empty() &&
         std::all_of(store.ranks.begin(), store.ranks.end(),
                     [](const query::RankCheck& rank) { return ProblemsOf(rank).empty(); }) &&
         std::all_of(destinations.begin(), destinations.end(), [this](const DestinationCheck& one) {
           return ProblemsOf(*this, one).empty();
         });
}

}  // namespace ranklog::cli
