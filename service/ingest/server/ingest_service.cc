#include "service/ingest/server/ingest_service.h"

#include "service/ingest/server/attach_reactor.h"
#include "service/ingest/server/finish_call.h"
#include "service/ingest/server/status_convert.h"

namespace ranklog::ingest {
namespace {

Answer FinishCall(grpc::ServerUnaryReactor* reactor) {
  return [reactor](const absl::Status& status) { reactor->Finish(ToGrpc(status)); };
}

}  // namespace

grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>* IngestService::Attach(
    grpc::CallbackServerContext* call) {
  return AttachReactor::Start(&context_, call);
}

grpc::ServerUnaryReactor* IngestService::Finish(grpc::CallbackServerContext* call,
                                                const v1::FinishRequest* request,
                                                v1::FinishReply*) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  ingest::Finish(&context_, *request, FinishCall(reactor));
  return reactor;
}

}  // namespace ranklog::ingest
