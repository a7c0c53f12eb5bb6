// What the daemon tells the users of runs, in words.

#ifndef SERVICE_DAEMON_NOTICES_H_
#define SERVICE_DAEMON_NOTICES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/deliver/backend.h"

namespace ranklog::daemon {

// Of all runs: commits fail with this status, or succeed again.
v1::Notice StoreNotice(const absl::Status& committed);

// Of all runs: the state directory lies on a file system that ends with its container or machine.
// The client appends it to the line that announces a run.
absl::optional<v1::Notice> StateNotice(const std::string& state_dir);

// Of the run of a delivery's step: where it can be seen, what it waits for, what was refused.
std::vector<v1::Notice> DeliveryNotices(const deliver::StepResult& step);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_NOTICES_H_
