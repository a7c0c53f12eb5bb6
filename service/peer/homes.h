// The connections to the daemons of rank 0's nodes.

#ifndef SERVICE_PEER_HOMES_H_
#define SERVICE_PEER_HOMES_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/base/host_port.h"

namespace ranklog::peer {

// Thread-safe. One connection per address, which gRPC opens again when it was cut.
class Homes {
 public:
  using Connect =
      std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(const HostPort& address)>;
  using Done = std::function<void(absl::Status, v1::PushReply)>;

  // `connect` is called again for an address after `renew`, because certificates expire.
  Homes(Connect connect, absl::Duration renew) : connect_(std::move(connect)), renew_(renew) {}
  ~Homes();  // cancels the calls, and waits for them

  // Calls `done` on a thread of gRPC, at the latest after `limit`; or at once, if there can be no
  // connection.
  void Push(const HostPort& address, const v1::PushRequest& request, Done done,
            absl::Duration limit = absl::Seconds(20)) ABSL_LOCKS_EXCLUDED(calls_->mutex);

 private:
  struct Home {
    std::shared_ptr<v1::Peer::Stub> stub;
    absl::Time made;
  };
  struct Call {
    std::shared_ptr<v1::Peer::Stub> stub;
    grpc::ClientContext context;
    v1::PushRequest request;
    v1::PushReply reply;
  };
  // Shared with the calls' ends.
  struct Calls {
    absl::Mutex mutex;
    std::map<Call*, std::shared_ptr<Call>> open ABSL_GUARDED_BY(mutex);
  };

  const Connect connect_;
  const absl::Duration renew_;
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  std::map<std::string, Home> homes_ ABSL_GUARDED_BY(calls_->mutex);
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_HOMES_H_
