#include "tests/support/wandb_public_api.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace ranklog::testing {
namespace {

using nlohmann::json;

int64_t StepOf(const std::string& line) {
  const json row = ParseExtendedJson(line);
  return row.is_object() ? row.value("_step", int64_t{-1}) : -1;
}

// Of more lines than `samples`, every k-th.
json Sampled(const std::vector<std::string>& lines, size_t samples) {
  const size_t stride = std::max<size_t>((lines.size() + samples - 1) / samples, 1);
  json sampled = json::array();
  for (size_t i = 0; i < lines.size(); i += stride) sampled.push_back(lines[i]);
  return sampled;
}

json HistoryOf(const WandbServer::Run& run, const json& variables) {
  const int64_t min_step = variables.value("minStep", int64_t{0});
  const int64_t max_step = variables.value("maxStep", int64_t{0});
  std::vector<std::string> found;
  for (size_t i = run.archived_lines; i < run.history.size(); ++i) {
    const int64_t step = StepOf(run.history[i]);
    if (step >= min_step && step < max_step) found.push_back(run.history[i]);
  }
  return Sampled(found, std::max<size_t>(variables.value("pageSize", size_t{1}), 1));
}

std::string StateOf(const WandbServer::Run& run) {
  if (run.preempting && !run.complete) return run.silent ? "preempted" : "preempting";
  if (!run.complete) return run.silent ? "crashed" : "running";
  if (run.exit_code == 0) return "finished";
  return run.preempting ? "preempted" : "failed";
}

// The rows that have all keys of each specification, without their other values.
json SampledRows(const WandbServer::Run& run, const json& variables) {
  json all = json::array();
  for (const json& text : variables.value("specs", json::array())) {
    const json spec = json::parse(text.get<std::string>());
    json found = json::array();
    for (const std::string& line : run.history) {
      const json row = ParseExtendedJson(line);
      json picked = json::object();
      for (const json& key : spec.at("keys")) {
        if (row.contains(key)) picked[key.get<std::string>()] = row.at(key.get<std::string>());
      }
      if (picked.size() == spec.at("keys").size()) found.push_back(std::move(picked));
    }
    all.push_back(std::move(found));
  }
  return all;
}

// The last value of each system metric.
std::string SystemMetrics(const WandbServer::Run& run) {
  json last = json::object();
  for (const std::string& line : run.events) {
    const json row = ParseExtendedJson(line);
    for (const auto& [key, value] : row.items()) {
      if (key.rfind("system.", 0) == 0) last[key] = value;
    }
  }
  return last.dump();
}

json Files(const WandbServer::Run& run, const json& variables,
           const std::function<std::string(const std::string&, const std::string&)>& url) {
  const json names = variables.value("fileNames", json::array());
  json edges = json::array();
  for (const auto& [name, bytes] : run.files) {
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (run.uploaded.count(name) == 0) continue;
    json node = {{"id", name},
                 {"name", name},
                 {"url", url(run.run_id, name)},
                 {"directUrl", url(run.run_id, name)},
                 {"sizeBytes", bytes.size()},
                 {"mimetype", "text/plain"},
                 {"updatedAt", "2026-01-02T03:04:05"},
                 {"md5", Md5Base64(bytes)}};
    edges.push_back({{"node", std::move(node)}, {"cursor", name}});
  }
  return {{"edges", std::move(edges)},
          {"pageInfo", {{"endCursor", nullptr}, {"hasNextPage", false}}}};
}

json ConsoleLines(const WandbServer::Run& run, const json& variables) {
  const size_t last = variables.value("last", run.console.size());
  json edges = json::array();
  for (size_t i = run.console.size() - std::min(last, run.console.size()); i < run.console.size();
       ++i) {
    const json structured = json::parse(run.console[i], nullptr, /*allow_exceptions=*/false);
    json node = {{"number", i},
                 {"timestamp", nullptr},
                 {"level", nullptr},
                 {"label", nullptr},
                 {"line", run.console[i]}};
    if (structured.is_object()) {
      node["timestamp"] = structured.value("ts", json());
      node["level"] = structured.value("level", json());
      node["label"] = structured.value("label", json());
      node["line"] = structured.value("content", json());
    }
    edges.push_back({{"node", std::move(node)}});
  }
  return {{"edges", std::move(edges)},
          {"pageInfo", {{"endCursor", nullptr}, {"hasNextPage", false}}}};
}

// Returns every field that the operations may ask for, except the large ones. A client picks those
// it asked for.
json RunNode(const WandbServer::Run& run) {
  const auto given = [&](const char* name) { return run.variables.value(name, json()); };
  json node = {{"id", run.storage_id},
               {"projectId", "1"},
               {"name", run.run_id},
               {"displayName", given("displayName")},
               {"state", StateOf(run)},
               {"stopped", run.stopped},
               {"tags", given("tags").is_null() ? json::array() : given("tags")},
               {"notes", given("notes")},
               {"group", given("groupName")},
               {"jobType", given("jobType")},
               {"commit", given("commit")},
               {"config", run.config.empty() ? "{}" : run.config},
               {"systemMetrics", SystemMetrics(run)},
               {"summaryMetrics", run.summary.empty() ? "{}" : run.summary},
               {"readOnly", false},
               {"user", {{"name", "fake"}, {"username", "fake"}}},
               {"historyLineCount", run.existing_lines + static_cast<int64_t>(run.history.size())},
               {"logLineCount", run.console.size()},
               {"fileCount", run.files.size()},
               {"historyTail", run.history.empty() ? "[]" : json({run.history.back()}).dump()},
               {"project", {{"name", run.project}, {"entity", {{"name", run.entity}}}}},
               {"parquetHistory", {{"parquetUrls", json::array()}, {"liveData", json::array()}}}};
  for (const char* const name : {"sweepName", "createdAt", "heartbeatAt", "description"}) {
    node[name] = nullptr;
  }
  node["historyKeys"] = {{"lastStep", run.history.empty() ? -1 : StepOf(run.history.back())}};
  return node;
}

}  // namespace

std::string OperationOf(const std::string& query) {
  for (const std::string kind : {"query ", "mutation "}) {
    const size_t found = query.find(kind);
    if (found == std::string::npos) continue;
    const size_t begin = found + kind.size();
    return query.substr(begin, query.find_first_of(" ({", begin) - begin);
  }
  return "";
}

bool IsPublicApi(const std::string& operation) {
  static const auto* const operations = new std::set<std::string>{"HistoryPage",
                                                                  "QueryRunInfo",
                                                                  "Run",
                                                                  "RunConsoleLogPage",
                                                                  "RunConsoleLogTail",
                                                                  "RunFiles",
                                                                  "RunFullHistory",
                                                                  "RunHistoryKeys",
                                                                  "RunParquetHistory",
                                                                  "RunSampledHistory",
                                                                  "RunState",
                                                                  "RunStoppedStatus",
                                                                  "Runs",
                                                                  "SampledHistoryPage"};
  return operations->count(operation) > 0;
}

json AnswerPublicApi(
    const std::string& operation, const json& variables,
    const std::map<std::string, WandbServer::Run>& runs,
    const std::function<std::string(const std::string&, const std::string&)>& url) {
  json project = {{"internalId", "1"}, {"readOnly", false}, {"run", nullptr}};
  if (operation == "Runs") {
    json edges = json::array();
    for (const auto& [id, run] : runs) {
      if (run.project == TextOf(variables, "project")) {
        edges.push_back({{"node", RunNode(run)}, {"cursor", id}});
      }
    }
    project["runCount"] = edges.size();
    project["runs"] = {{"edges", std::move(edges)},
                       {"pageInfo", {{"endCursor", nullptr}, {"hasNextPage", false}}}};
    return {{"data", {{"project", std::move(project)}}}};
  }
  for (const char* const name : {"run", "runName", "runId", "name"}) {
    const auto found = runs.find(TextOf(variables, name));
    if (found == runs.end()) continue;
    const WandbServer::Run& run = found->second;
    json node = RunNode(run);
    if (operation == "HistoryPage") node["history"] = HistoryOf(run, variables);
    if (operation == "RunFullHistory") {
      const size_t samples = std::max<size_t>(variables.value("samples", size_t{500}), 1);
      node["history"] = Sampled(run.history, samples);
      node["events"] = Sampled(run.events, samples);
    }
    if (variables.contains("specs")) node["sampledHistory"] = SampledRows(run, variables);
    if (operation == "RunFiles") node["files"] = Files(run, variables, url);
    if (operation.rfind("RunConsoleLog", 0) == 0) node["logLines"] = ConsoleLines(run, variables);
    project["run"] = std::move(node);
    break;
  }
  return {{"data", {{"project", std::move(project)}}}};
}

}  // namespace ranklog::testing
