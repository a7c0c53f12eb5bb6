#include "service/daemon/control_service.h"

#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/text/utf8.h"
#include "service/ingest/server/status_convert.h"

namespace ranklog::daemon {
namespace {

// 0 means never.
int64_t MicrosOf(absl::Time time) {
  return time == absl::InfinitePast() ? 0 : absl::ToUnixMicros(time);
}

}  // namespace

grpc::ServerUnaryReactor* ControlService::Status(grpc::CallbackServerContext* call,
                                                 const v1::StatusRequest*, v1::StatusReply* reply) {
  reply->set_version(RANKLOG_VERSION);
  reply->set_pid(getpid());
  reply->set_state_dir(ToUtf8(about_.state_dir));
  reply->set_start_time_us(about_.start_time_us);
  reply->set_started_by(about_.started_by);
  reply->set_metrics_url(about_.metrics_url);
  const Now now = about_.now();
  reply->set_live_streams(static_cast<uint32_t>(now.attached.streams));
  reply->set_live_jobs(static_cast<uint32_t>(now.attached.jobs));
  reply->set_live_ranks(static_cast<uint32_t>(now.attached.ranks));
  reply->set_rows_per_second(now.monitor.rows_per_second);
  if (const auto& growth = now.monitor.growth_per_second) {
    reply->set_growth_bytes_per_second(*growth);
  }
  reply->set_store_error(ToUtf8(now.store_error));
  for (const auto& [kind, destination] : now.destinations) {
    v1::DestinationStatus& to = *reply->add_destinations();
    to.set_kind(kind);
    to.set_last_success_us(MicrosOf(destination.last_success));
    to.set_last_error_us(MicrosOf(destination.last_error_time));
    to.set_last_error(ToUtf8(destination.last_error));
  }
  for (const auto& [run, why] : now.stopped_runs) {
    (*reply->mutable_stopped_runs())[run] = ToUtf8(why);
  }
  if (about_.keep.keep_for < absl::InfiniteDuration()) {
    reply->set_keep_for_us(absl::ToInt64Microseconds(about_.keep.keep_for));
  }
  if (about_.keep.keep_bytes < storage::KeepLimits::kUnlimited) {
    reply->set_keep_bytes(about_.keep.keep_bytes);
  }
  reply->set_content_quota(about_.content_quota);
  if (now.peer) {
    v1::PeerStatus& peer = *reply->mutable_peer();
    peer.set_key_file(ToUtf8(now.peer->key_file));
    peer.set_fingerprint(now.peer->fingerprint);
    peer.set_address(now.peer->address);
    peer.set_error(ToUtf8(now.peer->error));
    for (const peer::PushLoop::Link& from : now.peer->links) {
      if (from.own) continue;
      v1::PeerLink& link = *peer.add_link();
      link.set_run(from.run);
      link.set_home(ToUtf8(from.home));
      link.set_error(ToUtf8(from.error));
      link.set_waiting_rows(from.waiting_rows);
      link.set_last_answer_us(MicrosOf(from.last_answer));
      if (from.waits && from.stuck_since != absl::InfiniteFuture()) {
        link.set_stuck_seconds(absl::ToDoubleSeconds(SteadyNow() - from.stuck_since));
      }
    }
    for (const peer::PushReceiver::Node& from : now.peer->nodes) {
      v1::PeerNode& node = *peer.add_node();
      node.set_name(ToUtf8(from.name));
      node.set_silent_seconds(absl::ToDoubleSeconds(SteadyNow() - from.heard));
      node.set_streams(static_cast<uint32_t>(from.streams));
    }
  }
  for (const auto& [name, value] : now.counters) (*reply->mutable_counters())[name] = value;
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* ControlService::AddDestination(grpc::CallbackServerContext* call,
                                                         const v1::AddDestinationRequest* request,
                                                         v1::AddDestinationReply*) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  about_.add_destination(
      {.run = request->run(),
       .kind = request->kind(),
       .credentials = {request->credentials().begin(), request->credentials().end()},
       .settings = {request->settings().begin(), request->settings().end()}},
      [reactor](const absl::Status& status) { reactor->Finish(ingest::ToGrpc(status)); });
  return reactor;
}

grpc::ServerUnaryReactor* ControlService::RemoveRun(grpc::CallbackServerContext* call,
                                                    const v1::RemoveRunRequest* request,
                                                    v1::RemoveRunReply*) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  storage::Removal removal = storage::Removal::kNothingWaits;
  if (request->force()) removal = storage::Removal::kWhateverWaits;
  if (request->delivered()) removal = storage::Removal::kDelivered;
  about_.remove_run(request->run(), removal, [reactor](const absl::Status& status) {
    reactor->Finish(ingest::ToGrpc(status));
  });
  return reactor;
}

}  // namespace ranklog::daemon
