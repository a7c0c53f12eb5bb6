// Texts of the notices that the daemon sends to the users of runs.

#ifndef SERVICE_DAEMON_NOTICES_H_
#define SERVICE_DAEMON_NOTICES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/deliver/run_delivery.h"

namespace ranklog::daemon {

// For all runs: commits fail with this status, or succeed again.
v1::Notice StoreNotice(const absl::Status& committed);

// For all runs: the state directory is on a file system that ends with its container or machine.
// The client appends the text to the line that announces a run.
absl::optional<v1::Notice> StateNotice(const std::string& state_dir);

// For the run of a delivery step: its URL, the reason for a wait, and refused rows.
std::vector<v1::Notice> DeliveryNotices(const deliver::StepResult& step);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_NOTICES_H_
