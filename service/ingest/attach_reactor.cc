#include "service/ingest/attach_reactor.h"

#include <grpc/grpc.h>

#include "service/ingest/status_convert.h"

namespace ranklog::ingest {

AttachReactor* AttachReactor::Start(const IngestContext* context,
                                    grpc::CallbackServerContext* call) {
  // gRPC tells nothing until this is returned to it, so nothing comes before session_ is there.
  auto* const reactor = new AttachReactor(call);
  reactor->session_ = AttachSession::Start(context, context->peers->Find(call->peer()), reactor);
  return reactor;
}

void AttachReactor::Read() {
  started_cancelled_ = cancelled_;
  StartRead(&incoming_);
}

void AttachReactor::OnReadDone(bool ok) {
  if (ok) {
    session_->OnMessage(incoming_);
  } else {
    ended_after_message_ =
        !started_cancelled_ && grpc_call_failed_before_recv_message(call_.c_call()) == 0;
    session_->OnNoMoreMessages();
  }
}

void AttachReactor::OnWriteDone(bool ok) { session_->OnWritten(ok); }

// gRPC ends the call itself when a message is over its limit, and tells only the client why. That
// the call was cancelled though the connection brought a whole message tells it from all other ends
// of our ranks, who never end their half alone; a read that was started when the call had been
// cancelled already tells nothing. Only here is it known whether it was cancelled.
void AttachReactor::OnDone() {
  if (ended_after_message_ && cancelled_) session_->OnMessageTooLarge();
  session_->OnDone();  // waits until Finish() has returned
  delete this;
}

void AttachReactor::Finish(const absl::Status& status) {
  ServerBidiReactor::Finish(ToGrpc(status));
}

}  // namespace ranklog::ingest
