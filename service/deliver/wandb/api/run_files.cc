#include "service/deliver/wandb/api/run_files.h"

#include <utility>

#include "service/base/status_macros.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;

constexpr char kRunFiles[] =
    "mutation CreateRunFiles($entity: String!, $project: String!, $run: String!, $files: "
    "[String!]!) { createRunFiles(input: {entityName: $entity, projectName: $project, runName: "
    "$run, files: $files}) { runID uploadHeaders files { name uploadUrl } } }";

}  // namespace

std::string RunFilesBody(const std::string& entity, const std::string& project,
                         const std::string& run_id, const std::vector<std::string>& names) {
  return GraphqlBody(kRunFiles, "CreateRunFiles",
                     {{"entity", entity}, {"project", project}, {"run", run_id}, {"files", names}});
}

absl::StatusOr<UploadUrls> ParseRunFiles(absl::string_view body) {
  ASSIGN_OR_RETURN(const json answer, ParseAccepted(body, "the server refused CreateRunFiles"));
  const json made = At(answer, {"data", "createRunFiles"});
  const json files = At(made, {"files"});
  if (!files.is_array()) {
    return absl::InternalError("CreateRunFiles: the answer has no files; is this a W&B server?");
  }
  UploadUrls uploads;
  for (const json& file : files) {
    if (std::string url = TextAt(file, {"uploadUrl"}); !url.empty()) {
      uploads.urls[TextAt(file, {"name"})] = std::move(url);
    }
  }
  uploads.headers = HeadersIn(made, {"uploadHeaders"});
  return uploads;
}

}  // namespace ranklog::deliver::wandb
