#include "service/deliver/wandb/graphql.h"

#include "absl/strings/str_cat.h"
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
  if (const Json errors = At(json, {"errors"}); errors.is_array() && !errors.empty()) {
    std::string message = "upsert refused";
    for (const Json& error : errors) absl::StrAppend(&message, ": ", TextAt(error, {"message"}));
    return absl::FailedPreconditionError(message);
  }
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

}  // namespace ranklog::deliver::wandb
