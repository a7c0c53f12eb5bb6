// The gRPC service by which daemons of other nodes send their ranks' rows.

#ifndef SERVICE_PEER_PEER_SERVICE_H_
#define SERVICE_PEER_PEER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/peer/push_receiver.h"

namespace ranklog::peer {

class PeerService final : public v1::Peer::CallbackService {
 public:
  // `receiver` must outlive the server.
  explicit PeerService(PushReceiver* receiver) : receiver_(receiver) {}

  grpc::ServerUnaryReactor* Push(grpc::CallbackServerContext* call, const v1::PushRequest* request,
                                 v1::PushReply* reply) override;

 private:
  PushReceiver* const receiver_;
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_PEER_SERVICE_H_
