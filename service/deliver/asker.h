// Requests of a command, which waits for the answer.

#ifndef SERVICE_DELIVER_ASKER_H_
#define SERVICE_DELIVER_ASKER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/transport.h"
#include "service/deliver/read_back.h"

namespace ranklog::deliver {

// Sends a request until it is answered or the timeout has passed. All arguments must outlive it.
class Asker {
 public:
  Asker(const Destination& destination, Transport* transport, Credential key,
        const ReadBackOptions& options)
      : destination_(destination),
        transport_(*transport),
        key_(std::move(key)),
        options_(options) {}

  // Adds the key, and returns the body of an accepted answer.
  //   kFailedPrecondition  the server refuses the request
  //   kUnavailable         no answer within the timeout
  absl::StatusOr<std::string> Ask(HttpRequest request) const;

 private:
  const Destination& destination_;
  Transport& transport_;
  const Credential key_;
  const ReadBackOptions& options_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_ASKER_H_
