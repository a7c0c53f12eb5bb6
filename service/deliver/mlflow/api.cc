#include "service/deliver/mlflow/api.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/json/bounded_json.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/json/json_writer.h"

namespace ranklog::deliver::mlflow {
namespace {

// Runs of a page. An answer has all params, tags and metrics of each.
constexpr int kRunsOfPage = 100;

std::map<std::string, std::string> ToMap(const ServerJson& pairs) {
  std::map<std::string, std::string> map;
  if (!pairs.is_array()) return map;
  for (const ServerJson& pair : pairs) map[TextOf(pair, "key")] = TextOf(pair, "value");
  return map;
}

ServerRun ToRun(const ServerJson& json) {
  const ServerJson& info = MemberOf(json, "info");
  const ServerJson& data = MemberOf(json, "data");
  ServerRun run = {.run_id = TextOf(info, "run_id"),
                   .experiment_id = TextOf(info, "experiment_id"),
                   .status = TextOf(info, "status"),
                   .artifact_uri = TextOf(info, "artifact_uri"),
                   .deleted = TextOf(info, "lifecycle_stage") == "deleted",
                   .start_ms = IntegerOf(info, "start_time"),
                   .end_ms = IntegerOf(info, "end_time"),
                   .params = ToMap(MemberOf(data, "params")),
                   .tags = ToMap(MemberOf(data, "tags"))};
  const ServerJson& metrics = MemberOf(data, "metrics");
  for (const ServerJson& metric : metrics.is_array() ? metrics : ServerJson::array()) {
    if (absl::StartsWith(TextOf(metric, "key"), "system/")) continue;
    run.last_step = std::max(run.last_step, IntegerOf(metric, "step", -1));
  }
  return run;
}

void AppendPairs(absl::string_view name, const Pairs& pairs, std::string* out) {
  AppendString(name, out);
  *out += ":[";
  for (const auto& [key, value] : pairs) {
    *out += out->back() == '[' ? "{\"key\":" : ",{\"key\":";
    AppendString(key, out);
    *out += ",\"value\":";
    AppendString(value, out);
    *out += '}';
  }
  *out += ']';
}

void AppendMember(absl::string_view name, absl::string_view value, std::string* out) {
  *out += out->back() == '{' ? "" : ",";
  AppendString(name, out);
  *out += ':';
  AppendString(value, out);
}

}  // namespace

HttpRequest Get(absl::string_view server, absl::string_view path) {
  HttpRequest request;
  request.method = "GET";
  request.url = absl::StrCat(server, "/api/2.0/mlflow/", path);
  return request;
}

HttpRequest Post(absl::string_view server, absl::string_view path, std::string body) {
  HttpRequest request;
  request.url = absl::StrCat(server, "/api/2.0/mlflow/", path);
  request.headers = {{"Content-Type", "application/json"}};
  request.body = std::move(body);
  request.once = path == "runs/create";
  return request;
}

std::string PairsBody(absl::string_view run_id, absl::string_view kind, const Pairs& pairs) {
  std::string body = "{";
  AppendPairs(kind, pairs, &body);
  AppendMember("run_id", run_id, &body);
  return body + "}";
}

std::string CreateRunBody(absl::string_view experiment_id, absl::string_view name,
                          absl::string_view user, int64_t start_ms, const Pairs& tags) {
  std::string body = "{\"start_time\":";
  AppendInteger(start_ms, &body);
  body += ',';
  AppendPairs("tags", tags, &body);
  if (!name.empty()) AppendMember("run_name", name, &body);
  if (!user.empty()) AppendMember("user_id", user, &body);
  AppendMember("experiment_id", experiment_id, &body);
  return body + "}";
}

std::string UpdateRunBody(absl::string_view run_id, absl::string_view status, int64_t end_ms) {
  std::string body = "{";
  AppendMember("status", status, &body);
  if (end_ms > 0) absl::StrAppend(&body, ",\"end_time\":", end_ms);
  AppendMember("run_id", run_id, &body);
  return body + "}";
}

std::string SearchBody(absl::string_view experiment_id, const RunFilter& filter,
                       absl::string_view token, bool last) {
  std::string body =
      absl::StrCat("{\"max_results\":", last ? 1 : kRunsOfPage, ",\"experiment_ids\":[");
  AppendString(experiment_id, &body);
  absl::StrAppend(&body, "],\"order_by\":[\"attributes.", last ? "end_time" : "start_time",
                  " DESC\"]");
  std::string condition = absl::StrCat("tags.`", filter.tag, "` = '", filter.value, "'");
  if (!filter.status.empty()) {
    absl::StrAppend(&condition, " and attributes.status = '", filter.status, "'");
  }
  AppendMember("filter", condition, &body);
  if (!token.empty()) AppendMember("page_token", token, &body);
  return body + "}";
}

std::string ErrorCode(const HttpResponse& answer) {
  return TextOf(ParseBoundedJson(answer.body, kMaxAnswerValues), "error_code");
}

bool IsError(const absl::StatusOr<HttpResponse>& answer, absl::string_view code) {
  return answer.ok() && answer->code >= 400 && absl::string_view(ErrorCode(*answer)) == code;
}

bool IsDuplicate(const absl::StatusOr<HttpResponse>& answer) {
  if (!IsError(answer, "BAD_REQUEST")) return false;
  const std::string body = absl::AsciiStrToLower(answer->body);
  return absl::StrContains(body, "unique") || absl::StrContains(body, "duplicate");
}

absl::StatusOr<ServerJson> ParseObject(const HttpResponse& answer) {
  ServerJson json = ParseBoundedJson(answer.body, kMaxDocumentValues);
  if (json.is_object()) return json;
  return absl::UnavailableError(
      absl::StrCat("not the answer of an MLflow server: ", Excerpt(answer.body)));
}

absl::StatusOr<Experiment> ParseExperiment(const HttpResponse& answer) {
  ASSIGN_OR_RETURN(const ServerJson json, ParseObject(answer));
  // The answer to a creation has only the id.
  const ServerJson& experiment = json.contains("experiment") ? json["experiment"] : json;
  Experiment found = {.id = TextOf(experiment, "experiment_id"),
                      .deleted = TextOf(experiment, "lifecycle_stage") == "deleted"};
  if (!found.id.empty()) return found;
  return absl::UnavailableError(
      absl::StrCat("the answer has no experiment_id: ", Excerpt(answer.body)));
}

absl::StatusOr<ServerRun> ParseRun(const HttpResponse& answer) {
  ASSIGN_OR_RETURN(const ServerJson json, ParseObject(answer));
  ServerRun run = ToRun(MemberOf(json, "run"));
  if (!run.run_id.empty()) return run;
  return absl::UnavailableError(absl::StrCat("the answer has no run: ", Excerpt(answer.body)));
}

absl::StatusOr<RunPage> ParseRuns(const HttpResponse& answer) {
  ASSIGN_OR_RETURN(const ServerJson json, ParseObject(answer));
  RunPage page;
  const ServerJson& list = MemberOf(json, "runs");
  for (const ServerJson& run : list.is_array() ? list : ServerJson::array())
    page.runs.push_back(ToRun(run));
  page.next = TextOf(json, "next_page_token");
  return page;
}

absl::string_view StatusOf(model::RunState state) {
  switch (state) {
    case model::RunState::kRunning:
      return "RUNNING";
    case model::RunState::kFinished:
      return "FINISHED";
    case model::RunState::kFailed:
      return "FAILED";
    case model::RunState::kCrashed:
      return "KILLED";
  }
  return "FAILED";
}

}  // namespace ranklog::deliver::mlflow
