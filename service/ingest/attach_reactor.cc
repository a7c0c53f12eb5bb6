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

void AttachReactor::OnReadDone(bool ok) {
  if (ok) {
    session_->OnMessage(incoming_);
  } else {
    if (ReadTooMuch()) session_->OnMessageTooLarge();
    session_->OnNoMoreMessages();
  }
}

// gRPC ends the call itself when a message is over its limit, and tells only the client why. That
// the call is over though the connection brought a whole message tells it from all other ends.
bool AttachReactor::ReadTooMuch() const {
  return call_.IsCancelled() && grpc_call_failed_before_recv_message(call_.c_call()) == 0;
}

void AttachReactor::OnWriteDone(bool ok) { session_->OnWritten(ok); }

void AttachReactor::OnDone() {
  session_->OnDone();  // waits until Finish() has returned
  delete this;
}

void AttachReactor::Finish(const absl::Status& status) {
  ServerBidiReactor::Finish(ToGrpc(status));
}

}  // namespace ranklog::ingest
