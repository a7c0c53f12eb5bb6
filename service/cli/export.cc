#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/printable.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/output/metric_filter.h"
#include "service/cli/output/output_file.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/output/row_writer.h"
#include "service/cli/output/terminal.h"
#include "service/query/row_reader.h"

namespace ranklog::cli {
namespace {

constexpr size_t kWriteBytes = 256 << 10;

constexpr char kExportFooter[] = R"(
Rows are written as they are read, so memory use does not depend on the size of the run. Rows that arrive during
the export are not included.

jsonl: one object per line with _step, _timestamp (Unix time in seconds) and the row's metrics. JSON has no
  NaN and no infinities; they are written as NaN, Infinity and -Infinity, which Python's json
  reads; jq 1.6 reads NaN as null, and an infinity as the largest number.
csv: a header, then all metrics as columns; quoting and line ends follow RFC 4180; a missing metric is an
  empty field.
If a run was resumed from a checkpoint, the rows after it are those of the newest attempt.
--raw: rows as the ranks sent them, before aggregation, ordered by rank, then by stream (a rank has one per
  thread that logs and per restart, oldest first), then by seq.

Examples:
  ranklog export latest > run.jsonl
  ranklog export gpt:abc123 --format csv --output run.csv
  ranklog export latest --metric train/loss --format csv
  ranklog export latest --raw | grep '"rank":3,')";

struct ExportFlags {
  RunArgument run;
  std::string format = "jsonl";
  std::string output;
  bool raw = false;
  std::vector<std::string> metrics;
};

// Rows of a run, or of one of its streams.
struct Part {
  const model::Stream* stream = nullptr;  // null: rows of the run itself
  query::RowRange range;
};

using Output = std::function<absl::Status(absl::string_view text)>;

class Exporter {
 public:
  Exporter(storage::StoreReader& reader, const model::Run& run, const ExportFlags& flags,
           Output out)
      : reader_(reader),
        run_(run),
        flags_(flags),
        out_(std::move(out)),
        filter_(flags.metrics),
        progress_("export", false) {}

  absl::Status Export() {
    RETURN_IF_ERROR(PlanParts());
    ASSIGN_OR_RETURN(const std::unique_ptr<RowWriter> format, MakeFormat());
    std::string text;
    format->AppendHeader(&text);
    RETURN_IF_ERROR(VisitAll([&](const query::Row& row, const model::Stream* stream) {
      format->AppendRow(row, stream, &text);
      return text.size() < kWriteBytes ? absl::OkStatus() : Write(&text);
    }));
    RETURN_IF_ERROR(Write(&text));
    const std::vector<std::string> missing = filter_.Missing();
    if (missing.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no row has ", absl::StrJoin(missing, ", "),
                                            "; `ranklog show` lists the run's metrics"));
  }

 private:
  absl::Status PlanParts() {
    if (!flags_.raw) {
      ASSIGN_OR_RETURN(const std::vector<query::RowRange> ranges,
                       query::VisibleRows(reader_, run_));
      for (const query::RowRange& range : ranges) parts_.push_back({nullptr, range});
    } else {
      ASSIGN_OR_RETURN(streams_, reader_.Streams(run_.id));
      std::stable_sort(
          streams_.begin(), streams_.end(), [](const model::Stream& a, const model::Stream& b) {
            return std::tie(a.key.rank, a.started_us) < std::tie(b.key.rank, b.started_us);
          });
      for (const model::Stream& stream : streams_) {
        parts_.push_back({&stream, {.begin = 0, .end = stream.durable_seq}});
      }
    }
    for (const Part& part : parts_) total_ += part.range.rows();
    return absl::OkStatus();
  }

  // CSV needs its columns before the first row, so the rows are read twice.
  absl::StatusOr<std::unique_ptr<RowWriter>> MakeFormat() {
    if (flags_.format == "jsonl") return NewJsonRowWriter();
    ColumnCollector columns;
    total_ *= 2;
    RETURN_IF_ERROR(VisitAll([&](const query::Row& row, const model::Stream*) {
      columns.Add(row);
      return absl::OkStatus();
    }));
    return NewCsvRowWriter(columns.Take(), flags_.raw);
  }

  template <typename Fn>
  absl::Status VisitAll(Fn&& fn) {
    for (const Part& part : parts_) {
      const auto visit = [&](const query::Row& row) {
        progress_.Update(++done_, total_);
        return filter_.Visit(row, [&](const query::Row& left) { return fn(left, part.stream); });
      };
      RETURN_IF_ERROR(
          part.stream == nullptr
              ? query::VisitRunRows(reader_, run_.id, part.range, visit)
              : query::VisitStreamRows(reader_, part.stream->id, part.range.end, visit));
    }
    return absl::OkStatus();
  }

  absl::Status Write(std::string* text) {
    const absl::Status written = out_(*text);
    text->clear();
    return written;
  }

  storage::StoreReader& reader_;
  const model::Run& run_;
  const ExportFlags& flags_;
  const Output out_;
  MetricFilter filter_;
  ProgressBar progress_;
  std::vector<model::Stream> streams_;  // parts_ points into it
  std::vector<Part> parts_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

absl::Status ExportRun(const Globals& globals, const ExportFlags& flags) {
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(const model::Run run, flags.run.Find(globals, *reader));
  if (flags.output.empty()) return Exporter(*reader, run, flags, WriteOutput).Export();
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(flags.output));
  const auto write = [&](absl::string_view text) { return file.Write(text); };
  RETURN_IF_ERROR(Exporter(*reader, run, flags, write).Export());
  return file.Close();
}

}  // namespace

void AddExport(Program& program) {
  auto [options, flags] =
      program.Add("export", "write a run's rows as JSON lines or CSV", kExportFooter, ExportRun);
  flags.run.AddTo(options);
  options.Add("--format", &flags.format, "output format; default jsonl",
              {.one_of = {"jsonl", "csv"}});
  options.Add("--metric", &flags.metrics,
              "only this metric; can be repeated. Rows without any of them are left out",
              {.type = "NAME"});
  options.Add("--raw", &flags.raw, "write the rows that the ranks sent, not the run's");
  options.Add("--output,-o", &flags.output, "write to this file instead of stdout",
              {.type = "FILE"});
}

}  // namespace ranklog::cli
