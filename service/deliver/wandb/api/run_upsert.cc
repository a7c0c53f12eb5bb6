#include "service/deliver/wandb/api/run_upsert.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;
using nlohmann::json;

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

}  // namespace

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
  ASSIGN_OR_RETURN(const json answer, ParseAccepted(body, "the server refused UpsertBucket"));
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
    const absl::optional<int64_t> count = WholeNumber(lines);
    if (!count.has_value()) {
      return absl::InternalError(
          "UpsertBucket: the answer has no line count; is this a W&B server?");
    }
    upserted.history_lines = *count;
  }
  return upserted;
}

}  // namespace ranklog::deliver::wandb
