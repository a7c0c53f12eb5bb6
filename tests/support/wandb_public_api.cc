#include "tests/support/wandb_public_api.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace ranklog::testing {
namespace {

using nlohmann::json;

int64_t StepOf(const std::string& line) {
  const json row = ParseExtendedJson(line);
  return row.is_object() ? row.value("_step", int64_t{-1}) : -1;
}

json HistoryOf(const WandbServer::Run& run, const json& variables) {
  const int64_t min_step = variables.value("minStep", int64_t{0});
  const int64_t max_step = variables.value("maxStep", int64_t{0});
  std::vector<std::string> found;
  for (size_t i = run.archived_lines; i < run.history.size(); ++i) {
    const int64_t step = StepOf(run.history[i]);
    if (step >= min_step && step < max_step) found.push_back(run.history[i]);
  }
  const size_t samples = std::max<size_t>(variables.value("pageSize", size_t{1}), 1);
  const size_t stride = (found.size() + samples - 1) / samples;
  json lines = json::array();
  for (size_t i = 0; i < found.size(); i += stride) lines.push_back(found[i]);
  return lines;
}

std::string StateOf(const WandbServer::Run& run) {
  if (!run.complete) return run.silent ? "crashed" : "running";
  return run.exit_code == 0 ? "finished" : "failed";
}

// Returns every field that the operations may ask for. A client picks those it asked for.
json RunNode(const WandbServer::Run& run, const std::string& operation, const json& variables) {
  json node = {{"id", run.storage_id},
               {"projectId", "1"},
               {"name", run.run_id},
               {"displayName", run.variables.value("displayName", json())},
               {"state", StateOf(run)},
               {"tags", json::array()},
               {"config", run.config.empty() ? "{}" : run.config},
               {"systemMetrics", "{}"},
               {"summaryMetrics", run.summary.empty() ? "{}" : run.summary},
               {"readOnly", false},
               {"user", {{"name", "fake"}, {"username", "fake"}}},
               {"historyLineCount", run.existing_lines + static_cast<int64_t>(run.history.size())},
               {"historyTail", run.history.empty() ? "[]" : json({run.history.back()}).dump()},
               {"project", {{"name", run.project}, {"entity", {{"name", run.entity}}}}},
               {"parquetHistory", {{"parquetUrls", json::array()}, {"liveData", json::array()}}}};
  for (const char* const name : {"sweepName", "group", "jobType", "commit", "createdAt",
                                 "heartbeatAt", "description", "notes"}) {
    node[name] = nullptr;
  }
  node["historyKeys"] = {{"lastStep", run.history.empty() ? -1 : StepOf(run.history.back())}};
  if (operation == "HistoryPage") node["history"] = HistoryOf(run, variables);
  return node;
}

}  // namespace

std::string OperationOf(const std::string& query) {
  constexpr char kQuery[] = "query ";
  const size_t found = query.find(kQuery);
  if (found == std::string::npos) return "";
  const size_t begin = found + sizeof kQuery - 1;
  return query.substr(begin, query.find_first_of(" ({", begin) - begin);
}

bool IsPublicApi(const std::string& operation) {
  static const auto* const operations =
      new std::set<std::string>{"Run", "RunHistoryKeys", "RunParquetHistory", "HistoryPage"};
  return operations->count(operation) > 0;
}

json AnswerPublicApi(const std::string& operation, const json& variables,
                     const std::map<std::string, WandbServer::Run>& runs) {
  json node = nullptr;
  for (const char* const name : {"run", "runName", "name"}) {
    if (!variables.contains(name) || !variables[name].is_string()) continue;
    const auto found = runs.find(variables[name].get<std::string>());
    if (found != runs.end()) node = RunNode(found->second, operation, variables);
  }
  return {{"data", {{"project", {{"run", std::move(node)}}}}}};
}

}  // namespace ranklog::testing
