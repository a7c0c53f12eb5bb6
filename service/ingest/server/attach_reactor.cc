#include "service/ingest/server/attach_reactor.h"

#include "service/ingest/server/status_convert.h"

namespace ranklog::ingest {

AttachReactor* AttachReactor::Start(const IngestContext* context,
                                    grpc::CallbackServerContext* call) {
  // gRPC reports no event before this function returns, so session_ is set before the first event.
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
  session_->OnDone();  // takes the mutex, so it waits until Finish() has returned
  delete this;
}

void AttachReactor::Finish(const absl::Status& status) {
  ServerBidiReactor::Finish(ToGrpc(status));
}

}  // namespace ranklog::ingest
