#include "service/deliver/wandb/api/run_standing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/wandb/api/graphql.h"
#include "service/deliver/wandb/api/server_json.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;

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

constexpr char kStateRefused[] = "the server refused the query of the run's state";

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
  const json lines = ParseAnswer(tail);
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

std::string StandingBody(const std::string& entity, const std::string& project,
                         const std::string& run_id) {
  return GraphqlBody(kStanding, "RunResumeStatus",
                     {{"project", project}, {"entity", OrNull(entity)}, {"name", run_id}});
}

absl::StatusOr<ServerRunState> ParseStanding(absl::string_view body) {
  ASSIGN_OR_RETURN(const json answer, ParseAccepted(body, kStateRefused));
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
    const absl::optional<int64_t> lines = WholeNumber(given);
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
  ASSIGN_OR_RETURN(const json run, ParseRun(body, kStateRefused));
  std::string state = TextAt(run, {"state"});
  if (state.empty()) {
    return absl::InternalError("the answer has no state of the run; is this a W&B server?");
  }
  return state;
}

}  // namespace ranklog::deliver::wandb
