#include "service/daemon/control_service.h"

#include <unistd.h>

namespace ranklog::daemon {

grpc::ServerUnaryReactor* ControlService::Status(grpc::CallbackServerContext* call,
                                                 const v1::StatusRequest*, v1::StatusReply* reply) {
  reply->set_version(RANKLOG_VERSION);
  reply->set_pid(getpid());
  reply->set_state_dir(about_.state_dir);
  reply->set_start_time_us(about_.start_time_us);
  reply->set_started_by(about_.started_by);
  reply->set_live_streams(about_.live_streams());
  for (const auto& [name, value] : about_.counters()) (*reply->mutable_counters())[name] = value;
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace ranklog::daemon
