#include "service/peer/peer_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::peer {

grpc::ServerUnaryReactor* PeerService::Push(grpc::CallbackServerContext* call,
                                            const v1::PushRequest* request, v1::PushReply* reply) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  if (request->protocol() != v1::kProtocolVersion) {
    reactor->Finish(
        grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                     absl::StrCat("the daemon of rank 0's node speaks protocol ",
                                  v1::kProtocolVersion, ", and this one protocol ",
                                  request->protocol(), "; run the same version on all nodes")));
    return reactor;
  }
  receiver_->Handle(*request, [reply, reactor](v1::PushReply answer) {
    *reply = std::move(answer);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

}  // namespace ranklog::peer
