#include "service/deliver/wandb/api/run_read_back.h"

#include <utility>

#include "service/base/status_macros.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;

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

}  // namespace

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
  ASSIGN_OR_RETURN(const json run, ParseRun(body, "the server refused the query of the history"));
  const json lines = At(run, {"history"});
  const absl::optional<int64_t> count = WholeNumber(At(run, {"historyLineCount"}));
  if (!lines.is_array() || !count.has_value()) {
    return absl::InternalError("the answer has no history; is this a W&B server?");
  }
  HistoryPage page = {.lines = {}, .line_count = *count, .state = TextAt(run, {"state"})};
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
  ASSIGN_OR_RETURN(const json run,
                   ParseRun(body, "the server refused the query of the config and the summary"));
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
