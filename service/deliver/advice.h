// Advice for messages: how a person can unblock a delivery that waits.

#ifndef SERVICE_DELIVER_ADVICE_H_
#define SERVICE_DELIVER_ADVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver {

// Replaces RUN in the commands of a message. It is stored with RUN, so that runs that wait for the
// same reason have the same text.
std::string WithRun(absl::string_view message, absl::string_view run_id);

// About a failure that is Outcome::kBlocked. `created`: the run exists at the server.
std::string Advice(const Destination& destination, const absl::StatusOr<HttpResponse>& answer,
                   absl::string_view address, bool created);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_ADVICE_H_
