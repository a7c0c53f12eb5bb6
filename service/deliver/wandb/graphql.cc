#include "service/deliver/wandb/graphql.h"

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json_writer.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;

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

// As the official client asks, and for the number of lines and the state besides.
constexpr char kHistory[] =
    "query HistoryPage($entity: String!, $project: String!, $run: String!, $minStep: Int64!, "
    "$maxStep: Int64!, $pageSize: Int!) { project(name: $project, entityName: $entity) { "
    "run(name: $run) { historyLineCount state "
    "history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize) } } }";

// The official client's operation of that name asks for these two, and more.
constexpr char kRun[] =
    "query Run($project: String!, $entity: String!, $name: String!) { "
    "project(name: $project, entityName: $entity) { run(name: $name) { config summaryMetrics } } }";

constexpr char kFeatures[] =
    "query ServerFeaturesQuery { serverInfo { features { name isEnabled } } }";

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string Body(const char* query, const char* operation, Json variables) {
  return ToJsonText(
      {{"query", query}, {"variables", std::move(variables)}, {"operationName", operation}});
}

Json Parse(absl::string_view body) {
  return Json::parse(body.begin(), body.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
}

// A member of nested objects; null if there is none.
Json At(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* const key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
  }
  return *at;
}

std::string TextAt(const Json& json, std::initializer_list<const char*> path) {
  const Json found = At(json, path);
  return found.is_string() ? found.get<std::string>() : "";
}

absl::Status ErrorsOf(const Json& answer, std::string message) {
  const Json errors = At(answer, {"errors"});
  if (!errors.is_array() || errors.empty()) return absl::OkStatus();
  for (const Json& error : errors) absl::StrAppend(&message, ": ", TextAt(error, {"message"}));
  return absl::FailedPreconditionError(message);
}

}  // namespace

std::string UpsertBody(const Upsert& upsert) {
  Json tags = nullptr;
  if (!upsert.tags.empty()) tags = upsert.tags;
  return Body(kUpsert, "UpsertBucket",
              {{"id", OrNull(upsert.storage_id)},
               {"name", upsert.run_id},
               {"project", upsert.project},
               {"entity", OrNull(upsert.entity)},
               {"groupName", OrNull(upsert.group)},
               {"description", nullptr},
               {"displayName", OrNull(upsert.display_name)},
               {"notes", OrNull(upsert.notes)},
               {"commit", nullptr},
               {"config", OrNull(upsert.config)},
               {"host", OrNull(upsert.host)},
               {"debug", nullptr},
               {"program", OrNull(upsert.program)},
               {"repo", nullptr},
               {"jobType", OrNull(upsert.job_type)},
               {"state", nullptr},
               {"sweep", nullptr},
               {"tags", std::move(tags)},
               {"summaryMetrics", nullptr}});
}

absl::StatusOr<Upserted> ParseUpserted(absl::string_view body) {
  const Json json = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(json, "upsert refused"));
  const Json bucket = At(json, {"data", "upsertBucket", "bucket"});
  Upserted upserted = {.storage_id = TextAt(bucket, {"id"}),
                       .run_id = TextAt(bucket, {"name"}),
                       .display_name = TextAt(bucket, {"displayName"}),
                       .entity = TextAt(bucket, {"project", "entity", "name"}),
                       .project = TextAt(bucket, {"project", "name"})};
  if (upserted.storage_id.empty() || upserted.run_id.empty() || upserted.entity.empty() ||
      upserted.project.empty()) {
    return absl::InternalError("upsert: the answer names no run; is this a W&B server?");
  }
  if (const Json lines = At(bucket, {"historyLineCount"}); lines.is_number_integer()) {
    upserted.history_lines = lines.get<int64_t>();
  }
  return upserted;
}

std::string FeaturesBody() { return Body(kFeatures, "ServerFeaturesQuery", Json::object()); }

std::set<std::string> ParseFeatures(absl::string_view body) {
  std::set<std::string> enabled;
  const Json features = At(Parse(body), {"data", "serverInfo", "features"});
  if (!features.is_array()) return enabled;
  for (const Json& feature : features) {
    if (At(feature, {"isEnabled"}) == Json(true)) enabled.insert(TextAt(feature, {"name"}));
  }
  return enabled;
}

std::string HistoryBody(const HistoryQuery& query) {
  return Body(kHistory, "HistoryPage",
              {{"entity", query.entity},
               {"project", query.project},
               {"run", query.run_id},
               {"minStep", query.min_step},
               {"maxStep", query.max_step},
               {"pageSize", query.max_lines}});
}

absl::StatusOr<HistoryPage> ParseHistory(absl::string_view body) {
  const Json json = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(json, "read of the history refused"));
  const Json project = At(json, {"data", "project"});
  if (At(json, {"data"}).is_object() && At(project, {"run"}).is_null()) {
    return absl::NotFoundError("the server shows no such run");
  }
  const Json lines = At(project, {"run", "history"});
  const Json count = At(project, {"run", "historyLineCount"});
  if (!lines.is_array() || !count.is_number_integer()) {
    return absl::InternalError("the answer has no history; is this a W&B server?");
  }
  HistoryPage page = {
      .lines = {}, .line_count = count.get<int64_t>(), .state = TextAt(project, {"run", "state"})};
  for (const Json& line : lines) {
    if (!line.is_string()) return absl::InternalError("a line of the history is no text");
    page.lines.push_back(line.get<std::string>());
  }
  return page;
}

std::string DocumentsBody(const std::string& entity, const std::string& project,
                          const std::string& run_id) {
  return Body(kRun, "Run", {{"project", project}, {"entity", entity}, {"name", run_id}});
}

absl::StatusOr<RunDocuments> ParseDocuments(absl::string_view body) {
  const Json json = Parse(body);
  RETURN_IF_ERROR(ErrorsOf(json, "read of the config and the summary refused"));
  const Json run = At(json, {"data", "project", "run"});
  if (At(json, {"data"}).is_object() && run.is_null()) {
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
