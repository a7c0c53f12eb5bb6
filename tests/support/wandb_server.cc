#include "tests/support/wandb_server.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/wandb_public_api.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;

constexpr char kEntity[] = "fake-team";

json Parse(const std::string& text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// JSON text with one member `t` of the config's `_wandb`, if it has that: then the client resumes
// the run.
std::string TelemetryOf(const WandbServer::Run& run) {
  json telemetry = json::object();
  const json config = ParseExtendedJson(run.config);
  if (config.is_object() && config.contains("_wandb")) {
    const json own = config["_wandb"].value("value", json::object());
    if (own.is_object() && own.contains("t")) telemetry["t"] = own["t"];
  }
  return telemetry.dump();
}

}  // namespace

std::string TextOf(const json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return "";
  return object[key].get<std::string>();
}

WandbServer::WandbServer(std::string storage_url)
    : storage_url_(std::move(storage_url)),
      artifacts_([this](const std::string& kind, const std::string& owner,
                        const std::string& name) { return StorageUrl(kind, owner, name); },
                 [this](const std::string& error) { errors_.push_back(error); }) {}

WandbServer::Run& WandbServer::RunOf(const std::string& run_id) {
  Run& run = runs_[run_id];
  run.run_id = run_id;
  if (run.storage_id.empty()) run.storage_id = absl::StrCat("storage-", ++made_);
  return run;
}

WandbServer::Answer WandbServer::Graphql(const std::string& text) {
  const json body = Parse(text);
  std::string operation = TextOf(body, "operationName");
  if (operation.empty()) operation = OperationOf(TextOf(body, "query"));
  json variables = body.is_object() ? body.value("variables", json()) : json();
  if (!variables.is_object()) variables = json::object();
  if (operation == "UpsertBucket") return Upsert(TextOf(body, "query"), variables);
  if (operation == "CreateRunFiles") return CreateRunFiles(variables);
  if (operation == "RunResumeStatus") return ResumeStatus(variables);
  if (operation == "RewindRun") return RewindRun(variables);
  if (operation == "StopRun") return StopRun(variables);
  if (operation == "NotifyScriptableRunAlert") return Alert(variables);
  if (operation == "MarkRunFilesUploaded") return MarkRunFilesUploaded(variables);
  if (WandbArtifacts::Knows(operation)) return {200, artifacts_.Answer(operation, variables)};
  if (IsPublicApi(operation)) {
    const auto url = [this](const std::string& run, const std::string& file) {
      return StorageUrl("run", run, file);
    };
    return {200, AnswerPublicApi(operation, variables, runs_, url)};
  }
  if (operation == "OrganizationCoreWeaveOrganizationID")
    return {200, {{"data", {{"entity", {}}}}}};
  if (operation == "Viewer" || operation == "GetDefaultEntity" || operation == "GetViewer") {
    return {200,
            {{"data",
              {{"viewer",
                {{"id", "user-1"},
                 {"entity", kEntity},
                 {"username", "fake"},
                 {"email", "fake@example.com"},
                 {"flags", "{}"},
                 {"teams", {{"edges", json::array()}}}}}}}}};
  }
  if (operation == "ServerFeaturesQuery") {
    json list = json::array();
    for (const std::string& name : features_) list.push_back({{"name", name}, {"isEnabled", true}});
    return {200, {{"data", {{"serverInfo", {{"features", std::move(list)}}}}}}};
  }
  return {404, {{"errors", {{{"message", absl::StrCat("unknown operation ", operation)}}}}}};
}

// A run of this storage id; null if there is none.
WandbServer::Run* WandbServer::Stored(const std::string& storage_id) {
  for (auto& [id, run] : runs_) {
    if (run.storage_id == storage_id && !storage_id.empty()) return &run;
  }
  return nullptr;
}

WandbServer::Answer WandbServer::Upsert(const std::string& query, const json& variables) {
  const std::string config = TextOf(variables, "config");
  if (refuses_config_ && refuses_config_(config)) {
    return {refusal_code_, {{"errors", {{{"message", "bad config"}}}}, {"data", nullptr}}};
  }
  const size_t selection = std::min(query.size(), query.rfind("bucket"));
  const bool asks_for_config = absl::StrContains(query.substr(selection), "config");
  const Run* const stored = Stored(TextOf(variables, "id"));
  std::string run_id = TextOf(variables, "name");
  if (run_id.empty() && stored != nullptr) run_id = stored->run_id;
  if (!TextOf(variables, "id").empty() && (stored == nullptr || stored->run_id != run_id)) {
    errors_.push_back(absl::StrCat(run_id, ": upserted with the storage id of another run"));
  }
  const bool inserted = runs_.count(run_id) == 0;
  Run& run = RunOf(run_id);
  if (run.entity.empty()) run.entity = kEntity;
  if (!TextOf(variables, "entity").empty()) run.entity = TextOf(variables, "entity");
  if (!TextOf(variables, "project").empty()) run.project = TextOf(variables, "project");
  // Only the public API sends it.
  if (!TextOf(variables, "summaryMetrics").empty()) run.summary = variables["summaryMetrics"];
  for (const auto& [name, value] : variables.items()) {
    // The public API has another name for it.
    const std::string known = name == "display_name" ? "displayName" : name;
    if (!value.is_null() || !run.variables.contains(known)) run.variables[known] = value;
  }
  if (!config.empty()) run.config = config;
  // A client that creates a run that has ended continues it. Edits by a person do not: they come
  // from the web page or the public API, which have fewer variables.
  const bool client = variables.contains("program");
  run.silent = run.silent && !client;
  run.complete = run.complete && !client;
  ++run.upserts;
  json bucket = Bucket(run);
  if (!asks_for_config) bucket["config"] = nullptr;
  return {200,
          {{"data", {{"upsertBucket", {{"bucket", std::move(bucket)}, {"inserted", inserted}}}}}}};
}

json WandbServer::Bucket(const Run& run) {
  const std::string shown = TextOf(run.variables, "displayName");
  json bucket = {
      {"id", run.storage_id},
      {"name", run.run_id},
      {"displayName", shown.empty() ? "quiet-fake-1" : shown},
      {"description", nullptr},
      {"config", run.config},
      {"sweepName", nullptr},
      {"historyLineCount", run.existing_lines + static_cast<int64_t>(run.history.size())}};
  bucket["project"] = {{"id", "project-1"},
                       {"name", run.project},
                       {"entity", {{"id", "entity-1"}, {"name", run.entity}}}};
  return bucket;
}

WandbServer::Answer WandbServer::ResumeStatus(const json& variables) const {
  const std::string project = TextOf(variables, "project");
  const auto belongs = [&](const Run& run) {
    const std::string entity = TextOf(variables, "entity");
    // A run that a test made without an upsert belongs to any project.
    return run.project.empty() ||
           (run.project == project && (entity.empty() || run.entity == entity));
  };
  json bucket = nullptr;
  const auto found = runs_.find(TextOf(variables, "name"));
  if (found != runs_.end() && belongs(found->second)) {
    const Run& run = found->second;
    const auto tail = [](const std::vector<std::string>& lines) {
      return lines.empty() ? "[]" : json({lines.back()}).dump();
    };
    bucket = {{"id", run.storage_id},
              {"name", run.run_id},
              {"displayName", run.variables.value("displayName", json())},
              {"summaryMetrics", run.summary.empty() ? "{}" : run.summary},
              {"historyLineCount", run.existing_lines + static_cast<int64_t>(run.history.size())},
              {"eventsLineCount", run.events.size()},
              {"logLineCount", run.console.size()},
              {"historyTail", tail(run.history)},
              {"eventsTail", tail(run.events)},
              {"config", run.config.empty() ? "{}" : run.config},
              {"tags", run.variables.value("tags", json::array())},
              {"notes", run.variables.value("notes", json())},
              {"wandbConfig", TelemetryOf(run)}};
    if (bucket["tags"].is_null()) bucket["tags"] = json::array();
  }
  json model = {{"id", "project-1"},
                {"name", project},
                {"entity", {{"id", "entity-1"}, {"name", kEntity}}},
                {"bucket", std::move(bucket)}};
  return {200, {{"data", {{"model", std::move(model)}}}}};
}

// Removes the rows after a step. The client then writes events and console lines from the first one
// on.
WandbServer::Answer WandbServer::RewindRun(const json& variables) {
  const auto found = runs_.find(TextOf(variables, "runName"));
  if (found == runs_.end() || TextOf(variables, "metricName") != "_step") {
    return {200, {{"errors", {{{"message", "cannot rewind this"}}}}, {"data", nullptr}}};
  }
  Run& run = found->second;
  const double last = variables.value("metricValue", 0.0);
  while (!run.history.empty()) {
    const json row = ParseExtendedJson(run.history.back());
    if (row.value("_step", int64_t{0}) <= last) break;
    run.history.pop_back();
  }
  run.events.clear();
  run.console.clear();
  return {200, {{"data", {{"rewindRun", {{"rewoundRun", Bucket(run)}}}}}}};
}

WandbServer::Answer WandbServer::StopRun(const json& variables) {
  Run* const run = Stored(TextOf(variables, "id"));
  if (run != nullptr) run->stopped = true;
  return {200, {{"data", {{"stopRun", {{"success", run != nullptr}}}}}}};
}

WandbServer::Answer WandbServer::Alert(const json& variables) {
  const auto found = runs_.find(TextOf(variables, "runName"));
  const std::string severity = TextOf(variables, "severity");
  const bool valid = found != runs_.end() && !TextOf(variables, "title").empty() &&
                     (severity == "INFO" || severity == "WARN" || severity == "ERROR");
  if (valid) {
    json alert = {{"waitDuration", variables.value("waitDuration", json())}};
    for (const char* key : {"title", "text", "severity"}) alert[key] = variables.value(key, json());
    found->second.alerts.push_back(std::move(alert));
  } else {
    errors_.push_back(absl::StrCat("an alert that is not valid: ", variables.dump()));
  }
  return {200, {{"data", {{"notifyScriptableRunAlert", {{"success", valid}}}}}}};
}

json ParseExtendedJson(const std::string& text) {
  std::string strict;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      strict += c;
      strict += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (!in_string && (c == 'N' || c == 'I' || (c == '-' && text[i + 1] == 'I'))) {
      strict += '"';
      do strict += text[i++];
      while (i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])));
      strict += '"';
      --i;
      continue;
    }
    strict += c;
  }
  return Parse(strict);
}

}  // namespace ranklog::testing
