#include "service/deliver/wandb/api/alert.h"

#include "service/base/status_macros.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;

// The official client's operation.
constexpr char kAlert[] =
    "mutation NotifyScriptableRunAlert($entityName: String!, $projectName: String!, $runName: "
    "String!, $title: String!, $text: String!, $severity: AlertSeverity = INFO, $waitDuration: "
    "Duration) { notifyScriptableRunAlert(input: {entityName: $entityName, projectName: "
    "$projectName, runName: $runName, title: $title, text: $text, severity: $severity, "
    "waitDuration: $waitDuration}) { success } }";

}  // namespace

std::string AlertBody(const AlertRequest& alert) {
  return GraphqlBody(kAlert, "NotifyScriptableRunAlert",
                     {{"entityName", alert.entity},
                      {"projectName", alert.project},
                      {"runName", alert.run_id},
                      {"title", alert.title},
                      {"text", alert.text},
                      {"severity", alert.level},
                      {"waitDuration", alert.wait_ms}});
}

absl::Status ParseAlert(absl::string_view body) {
  ASSIGN_OR_RETURN(const json answer, ParseAccepted(body, "the server refused the alert"));
  if (At(answer, {"data", "notifyScriptableRunAlert", "success"}) == json(true)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("the server reports no success for the alert");
}

}  // namespace ranklog::deliver::wandb
