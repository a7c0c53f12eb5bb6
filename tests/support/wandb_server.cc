#include "tests/support/wandb_server.h"

#include <algorithm>
#include <cctype>

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
  const json variables =
      body.is_object() ? body.value("variables", json::object()) : json::object();
  if (operation == "UpsertBucket") return Upsert(TextOf(body, "query"), variables);
  if (operation == "CreateRunFiles") return CreateRunFiles(variables);
  if (operation == "RunResumeStatus") return ResumeStatus(variables);
  if (operation == "StopRun") return StopRun(variables);
  if (IsPublicApi(operation)) return {200, AnswerPublicApi(operation, variables, runs_)};
  if (operation == "Viewer" || operation == "GetDefaultEntity") {
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

WandbServer::Answer WandbServer::Upsert(const std::string& query, const json& variables) {
  const std::string config = TextOf(variables, "config");
  if (refuses_config_ && refuses_config_(config)) {
    return {refusal_code_, {{"errors", {{{"message", "bad config"}}}}, {"data", nullptr}}};
  }
  const size_t selection = std::min(query.size(), query.rfind("bucket"));
  const bool asks_for_config = absl::StrContains(query.substr(selection), "config");
  const std::string run_id = TextOf(variables, "name");
  const bool inserted = runs_.count(run_id) == 0;
  Run& run = RunOf(run_id);
  run.entity = TextOf(variables, "entity").empty() ? kEntity : TextOf(variables, "entity");
  run.project = TextOf(variables, "project");
  for (const auto& [name, value] : variables.items()) {
    if (!value.is_null() || !run.variables.contains(name)) run.variables[name] = value;
  }
  if (!config.empty()) run.config = config;
  run.silent = false;
  run.complete = false;  // a client that creates a run that has ended continues it
  ++run.upserts;
  const int64_t lines = run.existing_lines + static_cast<int64_t>(run.history.size());
  const std::string shown = TextOf(run.variables, "displayName");
  return {200,
          {{"data",
            {{"upsertBucket",
              {{"bucket",
                {{"id", run.storage_id},
                 {"name", run.run_id},
                 {"displayName", shown.empty() ? "quiet-fake-1" : shown},
                 {"description", nullptr},
                 {"config", asks_for_config ? json(run.config) : json()},
                 {"sweepName", nullptr},
                 {"historyLineCount", lines},
                 {"project",
                  {{"id", "project-1"},
                   {"name", run.project},
                   {"entity", {{"id", "entity-1"}, {"name", run.entity}}}}}}},
               {"inserted", inserted}}}}}}};
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

WandbServer::Answer WandbServer::StopRun(const json& variables) {
  bool success = false;
  for (auto& [id, run] : runs_) {
    if (run.storage_id != TextOf(variables, "id")) continue;
    run.stopped = success = true;
  }
  return {200, {{"data", {{"stopRun", {{"success", success}}}}}}};
}

bool WandbServer::Refuses(const json& files) const {
  if (!refuses_line_) return false;
  for (const auto& [name, chunk] : files.items()) {
    for (const json& line : chunk.value("content", json::array())) {
      if (refuses_line_(line.get<std::string>())) return true;
    }
  }
  return false;
}

WandbServer::Answer WandbServer::FileStream(const std::string& entity, const std::string& project,
                                            const std::string& run_id, const std::string& text) {
  const auto refuse = [](const std::string& why) -> Answer { return {400, {{"error", why}}}; };
  const json body = Parse(text);
  if (!body.is_object()) {
    errors_.push_back("file_stream: the body is no JSON object");
    return refuse("no JSON");
  }
  const auto found = runs_.find(run_id);
  if (found == runs_.end()) {
    return {404, {{"error", "no such run"}}};
  }
  Run& run = found->second;
  if (entity != run.entity || project != run.project) {
    errors_.push_back(
        absl::StrCat(run_id, ": posted under another entity or project: ", entity, "/", project));
  }
  if (run.complete && body.empty())
    errors_.push_back(absl::StrCat(run_id, ": a heartbeat after the end"));
  const json files = body.value("files", json::object());
  if (Refuses(files)) return refuse("a line is not valid");
  if (files.contains("wandb-history.jsonl") && !WriteHistory(run, files["wandb-history.jsonl"])) {
    return refuse("a gap");
  }
  if (files.contains("wandb-events.jsonl") && !WriteEvents(run, files["wandb-events.jsonl"])) {
    return refuse("a gap");
  }
  if (files.contains("wandb-summary.json"))
    run.summary = files["wandb-summary.json"]["content"].back();
  if (files.contains("output.log")) WriteConsole(run, files["output.log"]);
  ConfirmFiles(run, body.value("uploaded", json::array()));
  if (body.empty()) ++run.heartbeats;
  run.silent = false;
  run.complete = body.value("complete", false);
  if (run.complete) {
    run.exit_code = body.value("exitcode", -1);
    CheckEnd(run);
  }
  json answer = {{"exitcode", nullptr}, {"limits", json::object()}};
  if (run.stopped) answer["stopped"] = true;
  return {200, std::move(answer)};
}

bool WandbServer::WriteHistory(Run& run, const json& chunk) {
  const int64_t offset = chunk.value("offset", int64_t{-1}) - run.existing_lines;
  if (offset < 0 || offset > static_cast<int64_t>(run.history.size())) {
    errors_.push_back(absl::StrCat(run.run_id, ": a post at line ", offset + run.existing_lines,
                                   " where ", run.existing_lines, " to ",
                                   run.existing_lines + run.history.size(), " fit"));
    return false;
  }
  size_t at = static_cast<size_t>(offset);
  for (const json& content : chunk["content"]) {
    const std::string line = content.get<std::string>();
    if (at == run.history.size()) {
      run.history.push_back(line);
    } else if (run.history[at] == line) {
      ++run.repeated_lines;
    } else {
      errors_.push_back(
          absl::StrCat(run.run_id, ": line ", at, " was ", run.history[at], " and became ", line));
      run.history[at] = line;
    }
    const bool follows = !several_stores_ || at > static_cast<size_t>(offset);
    CheckSteps(run, at++, follows);
  }
  return true;
}

bool WandbServer::WriteEvents(Run& run, const json& chunk) {
  const int64_t offset = chunk.value("offset", int64_t{-1});
  if (offset < 0 || offset > static_cast<int64_t>(run.events.size())) {
    errors_.push_back(absl::StrCat(run.run_id, ": a post at event ", offset, " where 0 to ",
                                   run.events.size(), " fit"));
    return false;
  }
  size_t at = static_cast<size_t>(offset);
  for (const json& content : chunk["content"]) {
    const std::string line = content.get<std::string>();
    if (at == run.events.size()) {
      run.events.push_back(line);
    } else if (run.events[at] == line) {
      ++run.repeated_events;
    } else {
      errors_.push_back(
          absl::StrCat(run.run_id, ": event ", at, " was ", run.events[at], " and became ", line));
      run.events[at] = line;
    }
    const json row = ParseExtendedJson(line);
    if (!row.is_object() || row.value("_wandb", json()) != true || !row.contains("_timestamp") ||
        !row.contains("_runtime")) {
      errors_.push_back(absl::StrCat(run.run_id, ": event ", at, " is not one: ", line));
    }
    ++at;
  }
  return true;
}

// Lines may be written again with other text: a progress bar changes its line. Lines may be left
// out: an empty line has no text to write.
void WandbServer::WriteConsole(Run& run, const json& chunk) {
  const int64_t offset = chunk.value("offset", int64_t{-1});
  if (offset < 0) {
    errors_.push_back(absl::StrCat(run.run_id, ": output.log without an offset"));
    return;
  }
  size_t at = static_cast<size_t>(offset);
  for (const json& line : chunk["content"]) {
    if (at >= run.console.size()) run.console.resize(at + 1);
    run.console[at++] = line.get<std::string>();
  }
}

void WandbServer::CheckSteps(const Run& run, size_t line, bool follows) {
  const json row = ParseExtendedJson(run.history[line]);
  if (!row.is_object() || !row.contains("_step") || !row["_step"].is_number_integer()) {
    errors_.push_back(
        absl::StrCat(run.run_id, ": line ", line, " has no whole _step: ", run.history[line]));
    return;
  }
  if (line == 0 || !follows) return;
  const json before = ParseExtendedJson(run.history[line - 1]);
  if (before.is_object() && before.contains("_step") && before["_step"] >= row["_step"]) {
    errors_.push_back(absl::StrCat(run.run_id, ": the _step of line ", line, " does not grow"));
  }
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
