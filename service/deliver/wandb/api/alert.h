// Sends an alert to the people who watch a run.

#ifndef SERVICE_DELIVER_WANDB_API_ALERT_H_
#define SERVICE_DELIVER_WANDB_API_ALERT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

struct AlertRequest {
  std::string entity{};
  std::string project{};
  std::string run_id{};
  std::string title{};
  std::string text{};
  std::string level{};  // INFO, WARN or ERROR
  int64_t wait_ms = 0;  // the server drops another alert with this title within this time
};
std::string AlertBody(const AlertRequest& alert);
// Parses an answer with code 200.
//   kFailedPrecondition  the server has not sent the alert; the message has its reasons
absl::Status ParseAlert(absl::string_view body);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_ALERT_H_
