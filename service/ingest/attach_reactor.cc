#include "service/ingest/attach_reactor.h"

#include "service/ingest/status_convert.h"

namespace ranklog::ingest {

AttachReactor* AttachReactor::Start(const IngestContext* context,
                                    grpc::CallbackServerContext* call) {
  // gRPC tells nothing until this is returned to it, so nothing comes before session_ is there.
  auto* const reactor = new AttachReactor;
  reactor->session_ = AttachSession::Start(context, context->peers->Find(call->peer()), reactor);
  return reactor;
}

void AttachReactor::OnReadDone(bool ok) {
  if (ok) {
    session_->OnMessage(incoming_);
  } else {
    session_->OnNoMoreMessages();
  }
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
