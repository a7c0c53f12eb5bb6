// Texts of the notices that the daemon sends to the users of runs.

#ifndef SERVICE_DAEMON_NOTICES_H_
#define SERVICE_DAEMON_NOTICES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/deliver/run_delivery.h"
#include "service/model/session.h"
#include "service/peer/peering.h"

namespace ranklog::daemon {

// For all runs: commits fail with this status, or succeed again.
v1::Notice StoreNotice(const absl::Status& committed);

// For all runs: the state directory is on a file system that ends with its container or machine.
// The client appends the text to the line that announces a run.
absl::optional<v1::Notice> StateNotice(const std::string& state_dir);

// For the user of rank 0 of a job with several nodes: whether their ranks are joined, and why not.
absl::optional<v1::Notice> NodesNotice(const model::Session& session,
                                       const peer::Peering::State& peers);

// For the run of a part: why its rows do not join those of rank 0. Empty: they do again.
v1::Notice PartNotice(const std::string& home, const std::string& error);

// For the run of a delivery step: its URL, the reason for a wait, refused rows, and how many rows the
// tracker has that has the fewest of the step's and `others`, the run's other deliveries. A rank may
// wait for all of them.
std::vector<v1::Notice> DeliveryNotices(const deliver::StepResult& step,
                                        const std::vector<model::Delivery>& others);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_NOTICES_H_
