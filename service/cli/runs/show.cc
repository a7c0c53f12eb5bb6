#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/aggregate/run_config.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/output_file.h"
#include "service/cli/output/plot.h"
#include "service/cli/runs/show_head.h"
#include "service/deliver/json/json_writer.h"
#include "service/query/main_metrics.h"
#include "service/query/run_digest.h"
#include "service/query/run_report.h"
#include "service/ui/html_file.h"

namespace ranklog::cli {
namespace {

constexpr int kWidestPlot = 100;    // a wider curve is not clearer
constexpr size_t kMostBytes = 400;  // limit for a text in the config or summary: five lines
// Limit for the summary, so that other sections stay on the screen.
constexpr size_t kMostLines = 40;

constexpr char kShowFooter[] = R"(
Draws the run's main metrics: losses first, four at most. Curves are braille dots, or plain ASCII with --ascii
and if the locale is not UTF-8. Curves show every peak, however long the run is.

Examples:
  ranklog show latest
  ranklog show latest --metric train/loss --metric rank_max/train/loss --height 20
  ranklog show gpt:abc123 --json | jq .summary
  ranklog show latest --html run.html)";

struct ShowFlags {
  RunArgument run;
  bool json = false;
  bool all = false;
  bool ascii = false;
  std::vector<std::string> metrics;
  int width = 0;
  int height = 8;
  std::string html;
};

// What is known of the run's program and node, and what the node used.
struct Facts {
  model::Json metadata = model::Json::object();
  model::Json system = model::Json::object();  // the last sample
};

absl::StatusOr<Facts> ReadFacts(storage::StoreReader& reader, const model::Run& run) {
  Facts facts;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run.id, 0));
  facts.metadata = aggregate::RunMetadata(run, streams, items);
  ASSIGN_OR_RETURN(const model::Json hardware, reader.Hardware(run.id));
  facts.metadata.update(hardware);
  if (run.samples == 0) return facts;
  ASSIGN_OR_RETURN(const std::vector<model::Sample> last,
                   reader.Samples(run.id, run.samples - 1, 1));
  for (const model::Sample& sample : last) {
    for (const auto& [name, value] : sample.values) facts.system[name] = value;
  }
  return facts;
}

model::Json RunJson(const query::RunReport& report, const query::RunDigest& digest,
                    const Facts& facts) {
  model::Json json = ToJson(report);
  json["metadata"] = facts.metadata;
  json["samples"] = report.run.samples;
  json["system"] = facts.system;
  json["config"] = digest.config;
  json["summary"] = digest.summary;
  json["metrics"] = model::Json::object();
  for (const query::RunDigest::Metric& metric : digest.metrics) {
    const query::Series& series = metric.series;
    json["metrics"][metric.name] = {{"count", series.count()}, {"not_finite", series.not_finite()}};
    if (series.count() == 0) continue;
    json["metrics"][metric.name].update({{"last", series.last()},
                                         {"step", series.last_x()},
                                         {"min", series.min()},
                                         {"max", series.max()}});
  }
  return json;
}

// Formats a value as JSON, with changes for readability. Numbers are short. Texts have no quotes
// unless they are empty. An object without nested objects or lists, such as a metric's
// {"min":2.5,"last":3}, becomes "min 2.5, last 3".
std::string ValueText(const model::Json& value) {
  if (value.is_number_float()) return PlainNumber(value.get<double>(), 6);
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    return Printable(value.get_ref<const std::string&>());
  }
  const bool flat = value.is_object() && !value.empty() &&
                    std::none_of(value.begin(), value.end(),
                                 [](const model::Json& member) { return member.is_structured(); });
  if (!flat) return Printable(deliver::ToJsonText(value));
  std::string text;
  for (auto item = value.begin(); item != value.end(); ++item) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", Printable(item.key()), " ", ValueText(*item));
  }
  return text;
}

// The members of `object`, one line each. Unless `whole`, each has at most kMostBytes. Unless
// `all`, only the first kMostLines are shown, without rank statistics.
std::string SectionText(const std::string& title, const model::Json& object, bool all, bool whole,
                        const Terminal& terminal) {
  std::vector<std::pair<std::string, const model::Json*>> shown;
  size_t hidden = 0;
  int width = 0;
  for (auto item = object.begin(); item != object.end(); ++item) {
    if (!all && (item.key() == "_step" || item.key() == "_timestamp")) continue;  // shown above
    if (!all && (query::IsRankStatistic(item.key()) || shown.size() == kMostLines)) {
      ++hidden;
      continue;
    }
    shown.emplace_back(Printable(item.key()), &*item);
    width = std::max(width, TextWidth(shown.back().first));
  }
  if (shown.empty()) return "";
  std::string text = absl::StrCat("\n", terminal.Bold(title), "\n");
  for (const auto& [key, value] : shown) {
    absl::StrAppend(&text, "  ", key, std::string(width - TextWidth(key) + 2, ' '),
                    whole ? ValueText(*value) : CutEnd(ValueText(*value), kMostBytes), "\n");
  }
  if (hidden > 0) {
    absl::StrAppend(&text, "  ", terminal.Dim(absl::StrCat(hidden, " more with --all")), "\n");
  }
  return text;
}

PlotSize SizeOf(const ShowFlags& flags, const Terminal& terminal) {
  PlotSize size;
  size.width = flags.width > 0 ? flags.width : std::min(terminal.width, kWidestPlot);
  size.width = std::max(size.width, kMinPlotWidth);
  size.height = flags.height;
  size.ascii = flags.ascii || !terminal.unicode;
  return size;
}

// The last values over the ranks: "over ranks: min 1.9, mean 5.4, max 8.9 of rank 7 on node3".
std::string BandText(const query::RunReport& report, const query::RunDigest& digest,
                     const std::string& metric) {
  const auto last = [&](const char* statistic) -> absl::optional<double> {
    const std::string name = absl::StrCat("rank_", statistic, "/", metric);
    for (const query::RunDigest::Metric& one : digest.metrics) {
      if (one.name == name && one.series.count() > 0) return one.series.last();
    }
    return absl::nullopt;
  };
  const auto of_rank = [&](absl::optional<double> number) {
    if (!number) return std::string();
    for (const query::RankReport& rank : report.ranks) {
      if (rank.rank == *number) {
        return absl::StrCat(" of rank ", rank.rank,
                            rank.node.empty() ? "" : absl::StrCat(" on ", Printable(rank.node)));
      }
    }
    return std::string();
  };
  std::string text;
  for (const char* statistic : {"min", "mean", "max", "std"}) {
    const absl::optional<double> value = last(statistic);
    if (!value) continue;
    absl::StrAppend(&text, text.empty() ? "over ranks: " : ", ", statistic, " ",
                    PlainNumber(*value, 6), of_rank(last(absl::StrCat("arg", statistic).c_str())));
  }
  return text.empty() ? "" : text + "\n";
}

absl::Status WriteHtml(const std::string& state_dir, const model::Run& run,
                       const std::string& path) {
  ASSIGN_OR_RETURN(const std::string html, ui::HtmlFile({state_dir, nullptr}, run.id));
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path));
  RETURN_IF_ERROR(file.Write(html));
  return file.Close();
}

absl::Status Show(const Globals& globals, const ShowFlags& flags) {
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(const model::Run run, flags.run.Find(globals, *reader));
  ASSIGN_OR_RETURN(const std::string state_dir, globals.StateDir());
  if (!flags.html.empty()) return WriteHtml(state_dir, run, flags.html);
  std::vector<UnreadSpool> spools = FindAllSpools(state_dir);
  const absl::optional<DaemonStatus> daemon = FindDaemon(state_dir, globals.address);
  ASSIGN_OR_RETURN(
      query::RunReport report,
      query::ReportRun(*reader, run, daemon ? daemon->stopped_runs : query::StoppedRuns()));
  RETURN_IF_ERROR(CountRowsInSpools(globals, state_dir, std::move(spools), *reader,
                                    absl::MakeSpan(&report, 1)));
  const Terminal terminal = Terminal::Of(STDOUT_FILENO);
  const PlotSize size = SizeOf(flags, terminal);
  query::DigestOptions options;
  options.plotted = flags.metrics;
  options.columns = size.dot_columns();
  ASSIGN_OR_RETURN(const query::RunDigest digest, query::DigestRun(*reader, run, options));

  ASSIGN_OR_RETURN(const Facts facts, ReadFacts(*reader, run));
  std::string text;
  if (flags.json) {
    text = PrettyJson(RunJson(report, digest, facts));
  } else {
    text = HeadText(globals, report, terminal) +
           SectionText("config", digest.config, /*all=*/true, flags.all, terminal) +
           SectionText("summary", digest.summary, flags.all, flags.all, terminal) +
           SectionText("system, last sample", facts.system, flags.all, flags.all, terminal) +
           (flags.all ? SectionText("metadata", facts.metadata, true, true, terminal) : "");
    for (const size_t i : digest.plotted) {
      const query::RunDigest::Metric& metric = digest.metrics[i];
      absl::StrAppend(&text, "\n", DrawPlot(metric.name, metric.series, size, terminal),
                      BandText(report, digest, metric.name));
    }
  }
  std::cout << text;
  return absl::OkStatus();
}

}  // namespace

void AddShow(Program& program) {
  auto [options, flags] = program.Add(
      "show", "show a run: state, config, summary, and curves of its metrics", kShowFooter, Show);
  flags.run.AddTo(options);
  options.Add("--json", &flags.json, "print an object, for programs");
  options.Add("--all", &flags.all,
              "show the whole summary, with rank statistics, full texts and metadata");
  options.Add("--ascii", &flags.ascii, "draw with ASCII characters");
  options.Add("--metric", &flags.metrics, "draw this metric; can be repeated", {.type = "NAME"});
  options.Add("--html", &flags.html,
              "write the run's page, with curves, to a file that opens without a server",
              {.type = "FILE"});
  options.Add("--width", &flags.width,
              "width of the plots in columns; default that of the terminal",
              {.least = kMinPlotWidth, .most = 1000});
  options.Add("--height", &flags.height, "height of each plot in lines; default 8",
              {.least = 2, .most = 200});
}

}  // namespace ranklog::cli
