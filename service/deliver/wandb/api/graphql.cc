#include "service/deliver/wandb/api/graphql.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/json/bounded_json.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;
using nlohmann::json;

// Names are stored with the delivery and used in URLs. W&B limits each to 128 characters.
constexpr size_t kMaxName = 1024;

constexpr char kUpsert[] =
    "mutation UpsertBucket($id: String, $name: String, $project: String, $entity: String, "
    "$groupName: String, $description: String, $displayName: String, $notes: String, $commit: "
    "String, "
    "$config: JSONString, $host: String, $debug: Boolean, $program: String, $repo: String, "
    "$jobType: String, $state: String, $sweep: String, $tags: [String!], $summaryMetrics: "
    "JSONString) { "
    "upsertBucket(input: {id: $id, name: $name, groupName: $groupName, modelName: $project, "
    "entityName: $entity, description: $description, displayName: $displayName, notes: $notes, "
    "config: $config, commit: $commit, host: $host, debug: $debug, jobProgram: $program, "
    "jobRepo: $repo, jobType: $jobType, state: $state, sweep: $sweep, tags: $tags, "
    "summaryMetrics: $summaryMetrics}) { "
    "bucket { id name displayName sweepName historyLineCount project { name entity { name } } } "
    "inserted } }";

// The official client's query, extended by the number of lines and the state.
constexpr char kHistory[] =
    "query HistoryPage($entity: String!, $project: String!, $run: String!, $minStep: Int64!, "
    "$maxStep: Int64!, $pageSize: Int!) { project(name: $project, entityName: $entity) { "
    "run(name: $run) { historyLineCount state "
    "history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize) } } }";

// The official client's operation with this name also asks for other fields.
constexpr char kRun[] =
    "query Run($project: String!, $entity: String!, $name: String!) { "
    "project(name: $project, entityName: $entity) { run(name: $name) { config summaryMetrics } } }";

// The official client's query. Sent when the run may not exist yet. The entity may be empty, which
// means the user's default.
constexpr char kStanding[] =
    "query RunResumeStatus($project: String, $entity: String, $name: String!) { "
    "model(name: $project, entityName: $entity) { id name entity { id name } "
    "bucket(name: $name, missingOk: true) { id name summaryMetrics displayName logLineCount "
    "historyLineCount eventsLineCount historyTail eventsTail config tags notes "
    "wandbConfig(keys: [\"t\"]) } } }";

// A part of the query of the official client's public API.
constexpr char kState[] =
    "query Run($project: String!, $entity: String!, $name: String!) { "
    "project(name: $project, entityName: $entity) { run(name: $name) { state } } }";

constexpr char kRunFiles[] =
    "mutation CreateRunFiles($entity: String!, $project: String!, $run: String!, $files: "
    "[String!]!) { createRunFiles(input: {entityName: $entity, projectName: $project, runName: "
    "$run, files: $files}) { runID uploadHeaders files { name uploadUrl } } }";

// The official client's operation.
constexpr char kAlert[] =
    "mutation NotifyScriptableRunAlert($entityName: String!, $projectName: String!, $runName: "
    "String!, $title: String!, $text: String!, $severity: AlertSeverity = INFO, $waitDuration: "
    "Duration) { notifyScriptableRunAlert(input: {entityName: $entityName, projectName: "
    "$projectName, runName: $runName, title: $title, text: $text, severity: $severity, "
    "waitDuration: $waitDuration}) { success } }";

constexpr char kViewer[] = "query Viewer { viewer { id entity username } }";

constexpr char kFeatures[] =
    "query ServerFeaturesQuery { serverInfo { features { name isEnabled } } }";

json Parse(absl::string_view body) { return ParseBoundedJson(body, kMaxAnswerValues); }

absl::Status ErrorsOf(const json& answer, std::string message) {
  const json errors = At(answer, {"errors"});
  if (!errors.is_array() || errors.empty()) return absl::OkStatus();
  for (const json& error : errors) absl::StrAppend(&message, ": ", TextAt(error, {"message"}));
  return absl::FailedPreconditionError(Excerpt(message));
}

absl::Status CheckNames(std::initializer_list<const std::string*> names) {
  for (const std::string* name : names) {
    if (name->size() <= kMaxName) continue;
    return absl::InternalError(
        absl::StrCat("the answer has a name of ", name->size(), " bytes; is this a W&B server?"));
  }
  return absl::OkStatus();
}

// A number of lines or a step from a server; nullopt if it is not a non-negative integer in range.
std::optional<int64_t> WholeNumber(const json& number) {
  // Above 2^53, not every JSON reader keeps the exact value, and sums could overflow.
  constexpr uint64_t kMax = uint64_t{1} << 53;
  if (!number.is_number_unsigned() || number.get<uint64_t>() > kMax) return std::nullopt;
  return number.get<int64_t>();
}

// The time of a line or a summary; nullopt if it has no time.
absl::optional<int64_t> TimeOf(const json& row) {
  constexpr double kMaxSeconds = 9e12;  // fits in an int64_t as microseconds
  const json time = At(row, {"_timestamp"});
  if (!time.is_number() || !(std::fabs(time.get<double>()) < kMaxSeconds)) return absl::nullopt;
  return std::llround(time.get<double>() * 1e6);
}

double SecondsAt(const json& object, std::initializer_list<const char*> path) {
  const json found = At(object, path);
  return found.is_number() ? found.get<double>() : 0;
}

// The last line of a `historyTail` or `eventsTail`.
json LastLineOf(const std::string& tail) {
  const json lines = Parse(tail);
  if (!lines.is_array() || lines.empty() || !lines.back().is_string()) return nullptr;
  return ParseServerJson(lines.back().get<std::string>());
}

// Reads both the summary and the last lines, because the server may be behind with any of them.
void AddNewest(const json& run, ServerRunState* standing) {
  standing->summary = ParseServerJson(TextAt(run, {"summaryMetrics"}));
  const json history = LastLineOf(TextAt(run, {"historyTail"}));
  const json events = LastLineOf(TextAt(run, {"eventsTail"}));
  const auto add = [standing](const json& row) {
    standing->newest_us = std::max(standing->newest_us, TimeOf(row));  // nullopt is before any time
    const int64_t step = WholeNumber(At(row, {"_step"})).value_or(-1);
    standing->last_step = std::max(standing->last_step, step);
  };
  add(standing->summary);
  add(history);
  constexpr double kMaxRuntime = 1e10;  // seconds; fits in an int64_t as microseconds
  double runtime = 0;
  for (const double seconds : {SecondsAt(standing->summary, {"_wandb", "runtime"}),
                               SecondsAt(standing->summary, {"_runtime"}),
                               SecondsAt(history, {"_runtime"}), SecondsAt(events, {"_runtime"})}) {
    if (seconds > runtime && seconds < kMaxRuntime) runtime = seconds;
  }
  standing->runtime_us = std::llround(runtime * 1e6);
}

}  // namespace

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string GraphqlBody(const char* query, const char* operation, Json variables) {
  return ToJsonText(
      {{"query", query}, {"variables", std::move(variables)}, {"operationName", operation}});
}

absl::StatusOr<json> ParseGraphql(absl::string_view body, const char* field) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, absl::StrCat("the server refused ", field)));
  json found = At(answer, {"data", field});
  if (found.is_null()) {
    return absl::InternalError(
        absl::StrCat(field, ": the answer does not have it; is this a W&B server?"));
  }
  return found;
}

json At(const json& object, std::initializer_list<const char*> path) {
  const json* at = &object;
  for (const char* const key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
  }
  return *at;
}

std::string TextAt(const json& object, std::initializer_list<const char*> path) {
  const json found = At(object, path);
  return found.is_string() ? found.get<std::string>() : "";
}

std::vector<std::pair<std::string, std::string>> HeadersIn(
    const json& object, std::initializer_list<const char*> path) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const json& header : At(object, path)) {
    const std::string text = header.is_string() ? header.get<std::string>() : "";
    const size_t colon = text.find(':');
    if (colon == std::string::npos) continue;
    headers.emplace_back(text.substr(0, colon), absl::StripAsciiWhitespace(text.substr(colon + 1)));
  }
  return headers;
}

void Upsert::VisitTexts(absl::FunctionRef<void(const char* name, std::string* text)> visit) {
  visit("name", &display_name);
  visit("group", &group);
  visit("job_type", &job_type);
  visit("notes", &notes);
  visit("host", &host);
  visit("program", &program);
  visit("commit", &commit);
  visit("repo", &repo);
  std::string joined = absl::StrJoin(tags, "\n");
  visit("tags", &joined);
  if (joined.empty()) tags.clear();
}

std::string UpsertBody(const Upsert& upsert) {
  Json tags = nullptr;
  if (!upsert.tags.empty()) tags = upsert.tags;
  return GraphqlBody(kUpsert, "UpsertBucket",
                     {{"id", OrNull(upsert.storage_id)},
                      {"name", upsert.run_id},
                      {"project", upsert.project},
                      {"entity", OrNull(upsert.entity)},
                      {"groupName", OrNull(upsert.group)},
                      {"description", nullptr},
                      {"displayName", OrNull(upsert.display_name)},
                      {"notes", OrNull(upsert.notes)},
                      {"commit", OrNull(upsert.commit)},
                      {"config", OrNull(upsert.config)},
                      {"host", OrNull(upsert.host)},
                      {"debug", nullptr},
                      {"program", OrNull(upsert.program)},
                      {"repo", OrNull(upsert.repo)},
                      {"jobType", OrNull(upsert.job_type)},
                      {"state", nullptr},
                      {"sweep", nullptr},
                      {"tags", std::move(tags)},
                      {"summaryMetrics", nullptr}});
}

absl::StatusOr<Upserted> ParseUpserted(absl::string_view body) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, "the server refused UpsertBucket"));
  const json bucket = At(answer, {"data", "upsertBucket", "bucket"});
  Upserted upserted = {.storage_id = TextAt(bucket, {"id"}),
                       .run_id = TextAt(bucket, {"name"}),
                       .display_name = TextAt(bucket, {"displayName"}),
                       .entity = TextAt(bucket, {"project", "entity", "name"}),
                       .project = TextAt(bucket, {"project", "name"})};
  if (upserted.storage_id.empty() || upserted.run_id.empty() || upserted.entity.empty() ||
      upserted.project.empty()) {
    return absl::InternalError("UpsertBucket: the answer has no run; is this a W&B server?");
  }
  RETURN_IF_ERROR(CheckNames({&upserted.storage_id, &upserted.run_id, &upserted.display_name,
                              &upserted.entity, &upserted.project}));
  if (const json lines = At(bucket, {"historyLineCount"}); !lines.is_null()) {
    const std::optional<int64_t> count = WholeNumber(lines);
    if (!count.has_value()) {
      return absl::InternalError(
          "UpsertBucket: the answer has no line count; is this a W&B server?");
    }
    upserted.history_lines = *count;
  }
  return upserted;
}

std::string StandingBody(const std::string& entity, const std::string& project,
                         const std::string& run_id) {
  return GraphqlBody(kStanding, "RunResumeStatus",
                     {{"project", project}, {"entity", OrNull(entity)}, {"name", run_id}});
}

absl::StatusOr<ServerRunState> ParseStanding(absl::string_view body) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, "the server refused the query of the run's state"));
  const json project = At(answer, {"data", "model"});
  const json run = At(project, {"bucket"});
  // Without the member, it is not the answer to this query.
  if (At(answer, {"data"}).contains("model") && run.is_null()) {
    return absl::NotFoundError("the server has no such run");
  }
  ServerRunState standing = {.storage_id = TextAt(run, {"id"}),
                             .run_id = TextAt(run, {"name"}),
                             .display_name = TextAt(run, {"displayName"}),
                             .entity = TextAt(project, {"entity", "name"}),
                             .project = TextAt(project, {"name"})};
  standing.started = ParseServerJson(TextAt(run, {"wandbConfig"})).contains("t");
  for (const auto& [member, count] : {std::pair("historyLineCount", &standing.lines),
                                      std::pair("eventsLineCount", &standing.events)}) {
    const json given = At(run, {member});
    const std::optional<int64_t> lines = WholeNumber(given);
    if (lines.has_value()) *count = *lines;
    // A run that was made for a later start has no counts.
    if (lines.has_value() || (given.is_null() && !standing.started)) continue;
    return absl::InternalError(
        absl::StrCat("the answer has no ", member,
                     " of the run, and our lines could overwrite others; is this a "
                     "W&B server?"));
  }
  standing.console = WholeNumber(At(run, {"logLineCount"})).value_or(0);
  AddNewest(run, &standing);
  standing.config = ParseServerJson(TextAt(run, {"config"}));
  standing.has_notes = !TextAt(run, {"notes"}).empty();
  standing.has_tags = !At(run, {"tags"}).empty();
  if (standing.storage_id.empty() || standing.run_id.empty()) {
    return absl::InternalError("the answer has no state of the run; is this a W&B server?");
  }
  RETURN_IF_ERROR(CheckNames({&standing.storage_id, &standing.run_id, &standing.display_name,
                              &standing.entity, &standing.project}));
  return standing;
}

std::string StateBody(const std::string& entity, const std::string& project,
                      const std::string& run_id) {
  return GraphqlBody(kState, "Run", {{"project", project}, {"entity", entity}, {"name", run_id}});
}

absl::StatusOr<std::string> ParseState(absl::string_view body) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, "the server refused the query of the run's state"));
  const json run = At(answer, {"data", "project", "run"});
  if (At(answer, {"data"}).is_object() && run.is_null()) {
    return absl::NotFoundError("the server shows no such run");
  }
  std::string state = TextAt(run, {"state"});
  if (state.empty()) {
    return absl::InternalError("the answer has no state of the run; is this a W&B server?");
  }
  return state;
}

std::string RunFilesBody(const std::string& entity, const std::string& project,
                         const std::string& run_id, const std::vector<std::string>& names) {
  return GraphqlBody(kRunFiles, "CreateRunFiles",
                     {{"entity", entity}, {"project", project}, {"run", run_id}, {"files", names}});
}

absl::StatusOr<UploadUrls> ParseRunFiles(absl::string_view body) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, "the server refused CreateRunFiles"));
  const json made = At(answer, {"data", "createRunFiles"});
  const json files = At(made, {"files"});
  if (!files.is_array()) {
    return absl::InternalError("CreateRunFiles: the answer has no files; is this a W&B server?");
  }
  UploadUrls uploads;
  for (const json& file : files) {
    if (std::string url = TextAt(file, {"uploadUrl"}); !url.empty()) {
      uploads.urls[TextAt(file, {"name"})] = std::move(url);
    }
  }
  uploads.headers = HeadersIn(made, {"uploadHeaders"});
  return uploads;
}

std::string AlertBody(const AlertRequest& alert) {
  return GraphqlBody(kAlert, "NotifyScriptableRunAlert",
                     {{"entityName", alert.entity},
                      {"projectName", alert.project},
                      {"runName", alert.run_id},
                      {"title", alert.title},
                      {"text", alert.text},
                      {"severity", alert.level},
                      {"waitDuration", alert.wait_ms}});
}

absl::Status ParseAlert(absl::string_view body) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, "the server refused the alert"));
  if (At(answer, {"data", "notifyScriptableRunAlert", "success"}) == json(true)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("the server reports no success for the alert");
}

std::string ViewerBody() { return GraphqlBody(kViewer, "Viewer", Json::object()); }

std::string ParseViewer(absl::string_view body) {
  const json viewer = At(Parse(body), {"data", "viewer"});
  const std::string name = TextAt(viewer, {"username"});
  return name.empty() ? TextAt(viewer, {"entity"}) : name;
}

std::string FeaturesBody() { return GraphqlBody(kFeatures, "ServerFeaturesQuery", Json::object()); }

std::set<std::string> ParseFeatures(absl::string_view body) {
  std::set<std::string> enabled;
  const json features = At(Parse(body), {"data", "serverInfo", "features"});
  if (!features.is_array()) return enabled;
  for (const json& feature : features) {
    if (At(feature, {"isEnabled"}) == json(true)) enabled.insert(TextAt(feature, {"name"}));
  }
  return enabled;
}

std::string HistoryBody(const HistoryQuery& query) {
  return GraphqlBody(kHistory, "HistoryPage",
                     {{"entity", query.entity},
                      {"project", query.project},
                      {"run", query.run_id},
                      {"minStep", query.min_step},
                      {"maxStep", query.max_step},
                      {"pageSize", query.max_lines}});
}

absl::StatusOr<HistoryPage> ParseHistory(absl::string_view body) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, "the server refused the query of the history"));
  const json project = At(answer, {"data", "project"});
  if (At(answer, {"data"}).is_object() && At(project, {"run"}).is_null()) {
    return absl::NotFoundError("the server shows no such run");
  }
  const json lines = At(project, {"run", "history"});
  const std::optional<int64_t> count = WholeNumber(At(project, {"run", "historyLineCount"}));
  if (!lines.is_array() || !count.has_value()) {
    return absl::InternalError("the answer has no history; is this a W&B server?");
  }
  HistoryPage page = {
      .lines = {}, .line_count = *count, .state = TextAt(project, {"run", "state"})};
  for (const json& line : lines) {
    if (!line.is_string()) return absl::InternalError("a history line is not a string");
    page.lines.push_back(line.get<std::string>());
  }
  return page;
}

std::string DocumentsBody(const std::string& entity, const std::string& project,
                          const std::string& run_id) {
  return GraphqlBody(kRun, "Run", {{"project", project}, {"entity", entity}, {"name", run_id}});
}

absl::StatusOr<RunDocuments> ParseDocuments(absl::string_view body) {
  const json answer = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(answer, "the server refused the query of the config and the summary"));
  const json run = At(answer, {"data", "project", "run"});
  if (At(answer, {"data"}).is_object() && run.is_null()) {
    return absl::NotFoundError("the server shows no such run");
  }
  if (!run.is_object() || !run.contains("config") || !run.contains("summaryMetrics")) {
    return absl::InternalError("the answer has no config and summary; is this a W&B server?");
  }
  RunDocuments documents = {.config = TextAt(run, {"config"}),
                            .summary = TextAt(run, {"summaryMetrics"})};
  for (std::string* text : {&documents.config, &documents.summary}) {
    if (text->empty()) *text = "{}";
  }
  return documents;
}

}  // namespace ranklog::deliver::wandb
