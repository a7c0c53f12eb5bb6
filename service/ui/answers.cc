#include "service/ui/answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_config.h"
#include "service/base/status_macros.h"
#include "service/base/text/shell_word.h"
#include "service/query/run_report.h"

namespace ranklog::ui {
namespace {

constexpr int64_t kLinesOfConsole = 2000;  // of one answer

double Seconds(int64_t unix_us) { return static_cast<double>(unix_us) / 1e6; }

// A `ranklog` command for the run, ready for a shell.
std::string CommandFor(const std::string& command, const StoreSource& source,
                       const model::Run& run) {
  return absl::StrCat("ranklog ", command, " ", ShellWord(run.project + ":" + run.run_id),
                      " --state-dir ", ShellWord(source.dir));
}

model::Json ReportJson(const query::RunReport& report, RunKey key) {
  model::Json json = {{"key", key.Text()}, {"store", key.store}};
  json.update(ToJson(report));
  return json;
}

model::Json DefinitionsJson(const std::vector<model::StoredItem>& items,
                            const query::Shapes& shapes) {
  aggregate::MetricTable table;
  for (const model::StoredItem& item : items) {
    if (item.item.kind == model::Item::Kind::kMetric) table.Define(item.item.metric);
  }
  model::Json metrics = model::Json::array();
  std::map<std::string, bool> seen;
  for (const std::vector<std::string>& keys : shapes) {
    for (const std::string& key : keys) {
      if (std::exchange(seen[key], true)) continue;
      model::Json metric = {{"name", key}};
      if (const model::MetricDefinition* const definition = table.Find(key)) {
        if (definition->hidden) metric["hidden"] = true;
        if (!definition->step_metric.empty()) metric["step_metric"] = definition->step_metric;
        if (!definition->goal.empty()) metric["goal"] = definition->goal;
      }
      metrics.push_back(std::move(metric));
    }
  }
  return metrics;
}

// Replaces what a browser cannot read exactly by its text.
void MakeReadable(model::Json* json) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (json->is_structured()) {
    for (model::Json& member : *json) MakeReadable(&member);
  } else if (json->is_number_float()) {
    const double value = json->get<double>();
    if (!std::isfinite(value)) *json = std::string(NotFiniteText(value));
  } else if (json->is_number_unsigned()) {
    const uint64_t value = json->get<uint64_t>();
    if (value > static_cast<uint64_t>(kExact)) *json = absl::StrCat(value);
  } else if (json->is_number_integer()) {
    const int64_t value = json->get<int64_t>();
    if (value > kExact || value < -kExact) *json = absl::StrCat(value);
  }
}

// The first members of an artifact or file; absent ones are left out.
model::Json UploadJson(const model::StoredItem& upload) {
  const model::Json& object = upload.item.object;
  model::Json json = {{"timestamp", Seconds(upload.item.time_us)}};
  for (const char* const member : {"name", "path", "type", "use", "aliases", "step"}) {
    if (object.contains(member)) json[member] = object[member];
  }
  uint64_t bytes = 0;
  const std::vector<model::Item::StagedFile> files = upload.item.StagedFiles();
  for (const model::Item::StagedFile& file : files) bytes += file.bytes;
  json["files"] = files.size();
  json["bytes"] = bytes;
  return json;
}

}  // namespace

absl::string_view NotFiniteText(double value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf";
}

std::string JsonText(model::Json json) {
  MakeReadable(&json);
  return json.dump(-1, ' ', false, model::Json::error_handler_t::replace);
}

absl::StatusOr<std::string> Answers::Get(absl::string_view path, const Params& params) {
  absl::StatusOr<std::string> answer = GetOnce(path, params);
  if (absl::IsUnavailable(answer.status())) answer = GetOnce(path, params);  // a daemon has started
  return answer;
}

absl::StatusOr<std::string> Answers::GetOnce(absl::string_view path, const Params& params) {
  if (path == "/api/runs") return Runs();
  if (path == "/api/run") return Run(params);
  if (path == "/api/summary") return Summary(params);
  if (path == "/api/curves") return Curves(params);
  if (path == "/api/system") return System(params);
  if (path == "/api/ranks") return Ranks(params);
  if (path == "/api/console") return Console(params);
  if (path == "/api/delivery") return Delivery(params);
  if (path == "/api/artifacts") return Artifacts(params);
  return absl::NotFoundError("there is no such path");
}

std::map<std::string, std::string> Answers::States(const Params& params) const {
  std::map<std::string, std::string> states;
  const auto add = [&](size_t store, const model::Run& run) {
    states[RunKey{store, run.id}.Text()] = absl::StrCat(
        run.rows, ":", run.replays, ":", run.samples, ":", run.last_item, ":", run.ended_us);
  };
  const std::vector<std::string> keys = params.All("run");
  for (const std::string& text : keys) {
    const absl::StatusOr<RunKey> key = RunKey::Parse(text);
    if (!key.ok()) continue;
    const auto reader = stores_.Open(key->store);
    if (!reader.ok()) continue;
    if (const auto run = (*reader)->GetRun(key->run); run.ok()) add(key->store, *run);
  }
  for (size_t store = 0; keys.empty() && store < stores_.sources().size(); ++store) {
    const auto reader = stores_.Open(store);
    if (!reader.ok()) continue;
    const auto runs = (*reader)->Runs();
    if (!runs.ok()) continue;
    for (const model::Run& run : *runs) add(store, run);
  }
  return states;
}

absl::StatusOr<Answers::RunOf> Answers::OpenRun(const Params& params) const {
  RunOf run;
  ASSIGN_OR_RETURN(run.key, RunKey::Parse(params.Get("run")));
  ASSIGN_OR_RETURN(run.reader, stores_.Open(run.key.store));
  return run;
}

absl::StatusOr<std::string> Answers::Runs() const {
  std::vector<std::pair<int64_t, std::string>> runs;  // by start
  model::Json stores = model::Json::array();
  for (size_t i = 0; i < stores_.sources().size(); ++i) {
    const StoreSource& source = stores_.sources()[i];
    stores.push_back({{"dir", source.dir}, {"error", ""}});
    // One store that cannot be read does not hide the others.
    const absl::Status status = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const auto reader, stores_.Open(i));
      ASSIGN_OR_RETURN(std::vector<query::RunReport> reports, query::ReportRuns(*reader));
      if (source.complete) {
        RETURN_IF_ERROR(source.complete(*reader, absl::MakeSpan(reports)));
      }
      for (const query::RunReport& report : reports) {
        runs.emplace_back(report.run.started_us, JsonText(ReportJson(report, {i, report.run.id})));
      }
      return absl::OkStatus();
    }();
    if (!status.ok()) stores.back()["error"] = std::string(status.message());
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = absl::StrCat("{\"stores\":", JsonText(stores), ",\"runs\":[");
  for (size_t i = 0; i < runs.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", runs[i].second);
  }
  return text + "]}";
}

absl::StatusOr<std::string> Answers::Run(const Params& params) const {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  storage::StoreReader& reader = *of.reader;
  ASSIGN_OR_RETURN(const query::RunReport report, stores_.Report(reader, of.key));
  const model::Run& run = report.run;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run.id, 0));
  ASSIGN_OR_RETURN(const query::Shapes shapes, reader.RunShapes(run.id));
  ASSIGN_OR_RETURN(const model::Json hardware, reader.Hardware(run.id));
  ASSIGN_OR_RETURN(const auto console, reader.ConsoleRanks(run.id));
  model::Json json = ReportJson(report, of.key);
  json["primary_rank"] = run.primary_rank;
  json["samples"] = run.samples;
  json["config"] = aggregate::RunConfig(run, streams, items);
  json["metadata"] = aggregate::RunMetadata(run, streams, items);
  json["metadata"].update(hardware);
  json["metrics"] = DefinitionsJson(items, shapes);
  json["console_ranks"] = model::Json::array();
  for (const auto& [rank, extent] : console) json["console_ranks"].push_back(rank);
  json["commands"] = model::Json::object();
  for (const char* const command : {"verify", "show", "dead", "export", "artifacts"}) {
    json["commands"][command] = CommandFor(command, stores_.sources()[of.key.store], run);
  }
  return JsonText(json);
}

absl::StatusOr<std::string> Answers::Summary(const Params& params) {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  std::string text;
  RETURN_IF_ERROR(cache_.Use(
      of.key, *of.reader, /*quick=*/false, [&](const RunCurves& curves, bool) -> absl::Status {
        ASSIGN_OR_RETURN(const model::Json summary, curves.Summary(*of.reader));
        text = JsonText({{"summary", summary}});
        return absl::OkStatus();
      }));
  return text;
}

absl::StatusOr<std::string> Answers::Console(const Params& params) const {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  ASSIGN_OR_RETURN(const auto ranks, of.reader->ConsoleRanks(of.key.run));
  ASSIGN_OR_RETURN(const int64_t rank, params.Number("rank", 0));
  const auto found = ranks.find(static_cast<uint32_t>(rank));
  model::Json json = {{"rank", rank}, {"from", 0}, {"end", 0}, {"lines", model::Json::array()}};
  if (found == ranks.end()) return JsonText(json);
  const auto& [first, end] =
      std::pair(static_cast<int64_t>(found->second.from), static_cast<int64_t>(found->second.end));
  // Without `from`, the last lines.
  ASSIGN_OR_RETURN(int64_t from, params.Number("from", end - kLinesOfConsole));
  from = std::max(from, first);
  json["first"] = first;
  json["from"] = from;
  json["end"] = end;
  ASSIGN_OR_RETURN(const std::vector<model::StoredConsoleLine> lines,
                   of.reader->ConsoleLines(of.key.run, static_cast<uint32_t>(rank),
                                           static_cast<uint64_t>(from), kLinesOfConsole));
  for (const model::StoredConsoleLine& stored : lines) {
    json["lines"].push_back({stored.line.number, Seconds(stored.line.time_us),
                             stored.line.error ? 1 : 0, stored.line.text});
  }
  return JsonText(json);
}

absl::StatusOr<std::string> Answers::Delivery(const Params& params) const {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  ASSIGN_OR_RETURN(const query::RunReport report, stores_.Report(*of.reader, of.key));
  ASSIGN_OR_RETURN(const std::vector<model::DeadLetter> letters,
                   of.reader->DeadLetters(of.key.run));
  constexpr size_t kShown = 50;
  constexpr size_t kShownBytes = 2000;
  model::Json json = {{"run", ReportJson(report, of.key)},
                      {"dead_letters", letters.size()},
                      {"letters", model::Json::array()},
                      {"unread", query::UnreadTexts(report)}};
  for (size_t i = 0; i < std::min(letters.size(), kShown); ++i) {
    json["letters"].push_back({{"kind", letters[i].kind},
                               {"row", letters[i].row},
                               {"timestamp", Seconds(letters[i].time_us)},
                               {"answer", letters[i].answer.substr(0, kShownBytes)},
                               {"content", letters[i].content.substr(0, kShownBytes)}});
  }
  return JsonText(json);
}

absl::StatusOr<std::string> Answers::Artifacts(const Params& params) const {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> uploads, of.reader->Uploads(of.key.run, 0));
  model::Json json = {{"artifacts", model::Json::array()}};
  for (const model::StoredItem& upload : uploads) json["artifacts"].push_back(UploadJson(upload));
  return JsonText(json);
}

}  // namespace ranklog::ui
