#include "service/cli/doctor/delivery_check.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/output/terminal.h"
#include "service/query/select_run.h"

namespace ranklog::cli {
namespace {

// Totals over the runs of one kind of tracker.
struct Deliveries {
  uint64_t runs = 0;
  uint64_t waiting_runs = 0;
  uint64_t pending_rows = 0;
  uint64_t refused_rows = 0;
  std::vector<std::string> refused_runs;
  std::string last_error;              // of the newest waiting run that has an error
  std::vector<std::string> reasons;    // all errors, with their runs
  std::vector<std::string> set_apart;  // reason and advice, for each such run
};

std::string Advice(const Globals& globals, const Deliveries& sum, bool daemon_runs) {
  if (sum.waiting_runs == 0) return "";
  std::string advice;
  if (!daemon_runs) {
    advice = absl::StrCat("no daemon is running: start ranklogd, or run `", globals.Command("sync"),
                          "`");
  }
  if (!sum.reasons.empty()) {
    absl::StrAppend(&advice, advice.empty() ? "" : "; ",
                    "not delivered: ", Printable(absl::StrJoin(sum.reasons, "; ")));
  }
  for (const std::string& apart : sum.set_apart) {
    absl::StrAppend(&advice, advice.empty() ? "" : "; ", Printable(apart));
  }
  return advice;
}

}  // namespace

std::vector<Finding> CheckDeliveries(const Globals& globals,
                                     const std::vector<query::RunReport>& runs, bool daemon_runs) {
  std::map<std::string, Deliveries> by_kind;
  for (const query::RunReport& report : runs) {
    for (const query::DestinationReport& destination : report.destinations) {
      if (destination.kind == query::kLocal) continue;  // the store is this destination
      Deliveries& sum = by_kind[destination.kind];
      ++sum.runs;
      sum.pending_rows += destination.pending_rows;
      sum.refused_rows += destination.refused_rows;
      if (destination.refused_rows > 0) sum.refused_runs.push_back(report.run.run_id);
      if (!IsOpen(report, destination)) continue;
      ++sum.waiting_runs;
      if (destination.set_apart) {
        sum.set_apart.push_back(absl::StrCat("run ", report.run.project, ":", report.run.run_id,
                                             " is ", destination.last_error));
        continue;
      }
      if (sum.last_error.empty()) sum.last_error = destination.last_error;
    }
  }
  std::vector<Finding> findings;
  for (const query::RunReport& report : runs) {
    if (!report.run.refused) continue;
    findings.push_back(
        {"start",
         {{"run_id", report.run.run_id}, {"notice", report.run.notice}},
         absl::StrCat("run ", Printable(report.run.run_id), " was refused"),
         absl::StrCat(Printable(report.run.notice), "; run `",
                      globals.UploadCommand(Printable(report.run.run_id)), "` to upload it")});
  }
  for (auto& [kind, sum] : by_kind) {
    sum.reasons = query::WaitingTexts(runs, kind);
    std::string text =
        absl::StrCat(Printable(kind), ", ", Counted(sum.runs, "run"), ", ", sum.waiting_runs,
                     " waiting, ", Counted(sum.pending_rows, "row"), " to deliver");
    if (sum.refused_rows > 0) {
      absl::StrAppend(&text, ", ", Counted(sum.refused_rows, "row"), " refused (see `",
                      globals.Command("dead " + query::RunForCommand(sum.refused_runs)), "`)");
    }
    findings.push_back({"delivery",
                        {{"kind", kind},
                         {"runs", sum.runs},
                         {"waiting_runs", sum.waiting_runs},
                         {"pending_rows", sum.pending_rows},
                         {"refused_rows", sum.refused_rows},
                         {"last_error", sum.last_error},
                         {"reasons", sum.reasons},
                         {"set_apart", sum.set_apart}},
                        text,
                        Advice(globals, sum, daemon_runs)});
  }
  return findings;
}

}  // namespace ranklog::cli
