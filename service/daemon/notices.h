// What the daemon tells the users of runs, in words.

#ifndef SERVICE_DAEMON_NOTICES_H_
#define SERVICE_DAEMON_NOTICES_H_

#include <vector>

#include "absl/status/status.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/deliver/backend.h"

namespace ranklog::daemon {

// Of all runs: commits fail with this status, or succeed again.
v1::Notice StoreNotice(const absl::Status& committed);

// Of the run of a delivery's step: where it can be seen, what it waits for, what was refused.
std::vector<v1::Notice> DeliveryNotices(const deliver::StepResult& step);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_NOTICES_H_
