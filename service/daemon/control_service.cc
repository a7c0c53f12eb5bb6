#include "service/daemon/control_service.h"

#include <unistd.h>

#include "service/ingest/status_convert.h"

namespace ranklog::daemon {

grpc::ServerUnaryReactor* ControlService::Status(grpc::CallbackServerContext* call,
                                                 const v1::StatusRequest*, v1::StatusReply* reply) {
  reply->set_version(RANKLOG_VERSION);
  reply->set_pid(getpid());
  reply->set_state_dir(about_.state_dir);
  reply->set_start_time_us(about_.start_time_us);
  reply->set_started_by(about_.started_by);
  reply->set_live_streams(about_.live_streams());
  if (about_.keep.keep_for < absl::InfiniteDuration()) {
    reply->set_keep_for_us(absl::ToInt64Microseconds(about_.keep.keep_for));
  }
  if (about_.keep.keep_bytes < storage::KeepLimits::kUnlimited) {
    reply->set_keep_bytes(about_.keep.keep_bytes);
  }
  for (const auto& [name, value] : about_.counters()) (*reply->mutable_counters())[name] = value;
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* ControlService::AddDestination(grpc::CallbackServerContext* call,
                                                         const v1::AddDestinationRequest* request,
                                                         v1::AddDestinationReply*) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  about_.add_destination(
      request->run(), request->kind(),
      {request->credentials().begin(), request->credentials().end()},
      [reactor](const absl::Status& status) { reactor->Finish(ingest::ToGrpc(status)); });
  return reactor;
}

grpc::ServerUnaryReactor* ControlService::RemoveRun(grpc::CallbackServerContext* call,
                                                    const v1::RemoveRunRequest* request,
                                                    v1::RemoveRunReply*) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  about_.remove_run(request->run(), request->force(), [reactor](const absl::Status& status) {
    reactor->Finish(ingest::ToGrpc(status));
  });
  return reactor;
}

}  // namespace ranklog::daemon
