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
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/output/csv.h"
#include "service/cli/output/metric_filter.h"
#include "service/cli/output/output_file.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/output/row_writer.h"
#include "service/cli/output/terminal.h"
#include "service/deliver/json/json_writer.h"
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
--system: a row per sample of the node, with _timestamp and values in the units of W&B's package.

Examples:
  ranklog export latest --system --format csv --metric gpu.0.gpu
  ranklog export latest > run.jsonl
  ranklog export gpt:abc123 --format csv --output run.csv
  ranklog export latest --metric train/loss --format csv
  ranklog export latest --raw | grep '"rank":3,')";

struct ExportFlags {
  RunArgument run;
  std::string format = "jsonl";
  std::string output;
  bool raw = false;
  bool system = false;
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

// Visits the run's samples of system metrics, a thousand at a time.
absl::Status VisitSamples(storage::StoreReader& reader, const model::Run& run,
                          absl::FunctionRef<absl::Status(const model::Sample&)> visit) {
  constexpr size_t kPage = 1000;
  for (uint64_t next = 0; next < run.samples;) {
    ASSIGN_OR_RETURN(const std::vector<model::Sample> samples, reader.Samples(run.id, next, kPage));
    if (samples.empty()) return absl::OkStatus();
    for (const model::Sample& sample : samples) RETURN_IF_ERROR(visit(sample));
    next = samples.back().number + 1;
  }
  return absl::OkStatus();
}

absl::Status ExportSamples(storage::StoreReader& reader, const model::Run& run,
                           const ExportFlags& flags, const Output& out) {
  const auto wanted = [&](const std::string& name) {
    return flags.metrics.empty() ||
           std::find(flags.metrics.begin(), flags.metrics.end(), name) != flags.metrics.end();
  };
  std::vector<std::string> columns;
  std::string text;
  if (flags.format == "csv") {
    std::set<std::string> known;
    RETURN_IF_ERROR(VisitSamples(reader, run, [&](const model::Sample& sample) {
      for (const auto& [name, value] : sample.values) {
        if (wanted(name) && known.insert(name).second) columns.push_back(name);
      }
      return absl::OkStatus();
    }));
    text = "_timestamp";
    for (const std::string& column : columns) {
      text += ',';
      AppendCsvField(column, &text);
    }
    text += "\r\n";
  }
  const auto append_json = [&](const model::Sample& sample) {
    text += "{\"_timestamp\":";
    deliver::AppendSeconds(sample.time_us, &text);
    for (const auto& [name, value] : sample.values) {
      if (!wanted(name)) continue;
      text += ',';
      deliver::AppendString(name, &text);
      text += ':';
      deliver::AppendNumber(value, &text);
    }
    text += "}\n";
  };
  const auto append_csv = [&](const model::Sample& sample) {
    deliver::AppendSeconds(sample.time_us, &text);
    for (const std::string& column : columns) {
      text += ',';
      const auto value = std::find_if(sample.values.begin(), sample.values.end(),
                                      [&](const auto& one) { return one.first == column; });
      if (value != sample.values.end()) deliver::AppendNumber(value->second, &text);
    }
    text += "\r\n";
  };
  RETURN_IF_ERROR(VisitSamples(reader, run, [&](const model::Sample& sample) -> absl::Status {
    flags.format == "csv" ? append_csv(sample) : append_json(sample);
    if (text.size() < kWriteBytes) return absl::OkStatus();
    RETURN_IF_ERROR(out(text));
    text.clear();
    return absl::OkStatus();
  }));
  return out(text);
}

absl::Status ExportRun(const Globals& globals, const ExportFlags& flags) {
  if (flags.raw && flags.system) {
    return WrongUsage(
        "--raw and --system exclude each other: samples are of the node, not of ranks");
  }
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(const model::Run run, flags.run.Find(globals, *reader));
  const auto write_to = [&](const Output& out) {
    return flags.system ? ExportSamples(*reader, run, flags, out)
                        : Exporter(*reader, run, flags, out).Export();
  };
  if (flags.output.empty()) return write_to(WriteOutput);
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(flags.output));
  RETURN_IF_ERROR(write_to([&](absl::string_view text) { return file.Write(text); }));
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
  options.Add("--system", &flags.system,
              "write the samples of system metrics: CPU, memory, disks, network, GPUs");
  options.Add("--output,-o", &flags.output, "write to this file instead of stdout",
              {.type = "FILE"});
}

}  // namespace ranklog::cli
