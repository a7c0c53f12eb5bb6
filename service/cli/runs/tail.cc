#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/output/metric_filter.h"
#include "service/cli/output/row_writer.h"
#include "service/cli/output/terminal.h"
#include "service/query/main_metrics.h"
#include "service/query/row_reader.h"
#include "service/storage/directories/state_lock.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kTailPoll = absl::Milliseconds(200);
constexpr size_t kMostTextBytes = 160;  // limit for a text: two lines
// Limit for a row shown to users; a row of 1000 values fills a screen.
constexpr size_t kMostValues = 20;

constexpr char kTailFooter[] = R"(
While the run is running, new rows are shown as they arrive, until it has ended or you press Ctrl-C. If the run
resumes from a checkpoint, its steps after that are shown again. Rank statistics (rank_mean/ and so on), more than
20 values of a row, and more than 160 bytes of a text are shown only with --all and in --json.

Examples:
  ranklog tail latest
  ranklog tail latest -n 100 --no-follow
  ranklog tail latest --metric train/loss --metric val/loss
  ranklog tail latest --json | python3 monitor.py)";

struct TailFlags {
  RunArgument run;
  uint64_t rows = 10;
  bool no_follow = false;
  bool json = false;
  bool all = false;
  std::vector<std::string> metrics;
};

// Formats a row as a line for users.
class LineFormat {
 public:
  explicit LineFormat(const TailFlags& flags) : flags_(flags) {}

  // Empty if the row has none of the selected metrics.
  std::string Line(const query::Row& row) const {
    std::string values;
    size_t count = 0;
    for (size_t i = 0; i < row.keys.size(); ++i) {
      if (IsShown(row.keys[i]) && Fits(++count)) {
        Append(row.keys[i], PlainNumber(row.values()[i]), &values);
      }
    }
    for (const model::Text& text : row.texts()) {
      if (!IsShown(text.key) || !Fits(++count)) continue;
      Append(text.key,
             flags_.all ? Printable(text.value) : CutEnd(Printable(text.value), kMostTextBytes),
             &values);
    }
    if (count == 0 && !flags_.metrics.empty()) return "";
    if (!Fits(count)) {
      absl::StrAppend(&values, "  ",
                      terminal_.Dim(absl::StrCat(count - kMostValues, " more with --all")));
    }
    const std::string time =
        absl::FormatTime("%H:%M:%S", absl::FromUnixMicros(row.time_us()), absl::LocalTimeZone());
    return absl::StrCat(terminal_.Dim(time), "  ", terminal_.Bold(absl::StrCat(row.step())), values,
                        "\n");
  }

 private:
  bool IsShown(const std::string& key) const {
    if (flags_.metrics.empty()) return flags_.all || !query::IsRankStatistic(key);
    return std::count(flags_.metrics.begin(), flags_.metrics.end(), key) > 0;
  }
  bool Fits(size_t count) const {
    return flags_.all || !flags_.metrics.empty() || count <= kMostValues;
  }
  void Append(const std::string& key, const std::string& value, std::string* out) const {
    absl::StrAppend(out, "  ", terminal_.Dim(Printable(key)), " ", value);
  }

  const TailFlags& flags_;
  const Terminal terminal_ = Terminal::Of(STDOUT_FILENO);
};

// The selected metrics that no row of the run has yet.
absl::StatusOr<std::set<std::string>> MissingMetrics(storage::StoreReader& reader,
                                                     const model::Run& run,
                                                     const std::vector<query::RowRange>& ranges,
                                                     const std::vector<std::string>& metrics) {
  std::set<std::string> missing(metrics.begin(), metrics.end());
  ASSIGN_OR_RETURN(const auto shapes, reader.RunShapes(run.id));
  for (const std::vector<std::string>& keys : shapes) {
    for (const std::string& key : keys) missing.erase(key);
  }
  // The keys of texts are only in the rows.
  for (size_t i = 0; i < ranges.size() && !missing.empty(); ++i) {
    RETURN_IF_ERROR(query::VisitRunRows(reader, run.id, ranges[i], [&](const query::Row& row) {
      for (const model::Text& text : row.texts()) missing.erase(text.key);
      return absl::OkStatus();
    }));
  }
  return missing;
}

// An error if no row has one of the selected metrics. In a running run, it may still come.
absl::Status CheckMetrics(const Globals& globals, const std::set<std::string>& missing,
                          const model::Run& run, bool may_come) {
  if (missing.empty()) return absl::OkStatus();
  const std::string what = absl::StrCat(
      "no row has ", Printable(absl::StrJoin(missing, ", ")), may_come ? " yet" : "",
      "; to list the run's metrics, run: ", globals.Command("show " + Printable(run.run_id)));
  if (!may_come) return absl::NotFoundError(what);
  std::cerr << "ranklog: " << what << "\n";
  return absl::OkStatus();
}

// Warns once if there is a reason why no rows may arrive.
void WarnIfNobodyWrites(const Globals& globals) {
  const auto dir = globals.StateDir();
  if (!dir.ok() || storage::StateLock::Holder(*dir) != 0) return;
  std::cerr
      << "ranklog: the run has not ended, but no daemon is running; start ranklogd to get new "
         "rows\n";
}

absl::Status Tail(const Globals& globals, const TailFlags& flags) {
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(model::Run run, flags.run.Find(globals, *reader));
  const std::unique_ptr<RowWriter> json = NewJsonRowWriter();
  const LineFormat line(flags);
  MetricFilter filter(flags.metrics);
  const auto print = [&](const query::Row& row) {
    if (!flags.json) return WriteOutput(line.Line(row));
    return filter.Visit(row, [&](const query::Row& left) {
      std::string text;
      json->AppendRow(left, /*stream=*/nullptr, &text);
      return WriteOutput(text);
    });
  };

  ASSIGN_OR_RETURN(std::vector<query::RowRange> ranges, query::VisibleRows(*reader, run));
  ASSIGN_OR_RETURN(const std::set<std::string> missing,
                   MissingMetrics(*reader, run, ranges, flags.metrics));
  RETURN_IF_ERROR(
      CheckMetrics(globals, missing, run,
                   /*may_come=*/!flags.no_follow && run.state == model::RunState::kRunning));
  ranges = query::LastOf(std::move(ranges), flags.rows);
  if (!flags.no_follow && run.state == model::RunState::kRunning) WarnIfNobodyWrites(globals);
  while (true) {
    for (const query::RowRange& range : ranges) {
      RETURN_IF_ERROR(query::VisitRunRows(*reader, run.id, range, print));
    }
    RETURN_IF_ERROR(FlushOutput());
    // State and row count were read together, so if the run had ended, these were all its rows.
    if (flags.no_follow || run.state != model::RunState::kRunning) return absl::OkStatus();
    absl::SleepFor(kTailPoll);
    const model::Run before = run;
    ASSIGN_OR_RETURN(run, reader->GetRun(run.id));
    ASSIGN_OR_RETURN(ranges, query::MadeSince(*reader, before, run));
  }
}

}  // namespace

void AddTail(Program& program) {
  auto [options, flags] =
      program.Add("tail", "show a run's last rows and follow new ones", kTailFooter, Tail);
  flags.run.AddTo(options);
  options.Add("-n,--rows", &flags.rows, "number of rows to show first; default 10",
              {.type = "N", .check = CheckCount});
  options.Add("--no-follow", &flags.no_follow, "do not wait for new rows");
  options.Add("--json", &flags.json, "print an object per line, like `ranklog export`");
  options.Add("--all", &flags.all, "show all values, with rank statistics");
  options.Add("--metric", &flags.metrics, "only this metric; can be repeated", {.type = "NAME"});
}

}  // namespace ranklog::cli
