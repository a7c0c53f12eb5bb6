#include "service/ingest/server/attach_reactor.h"

#include <grpc/grpc.h>

#include "service/ingest/server/status_convert.h"

namespace ranklog::ingest {

AttachReactor* AttachReactor::Start(const IngestContext* context,
                                    grpc::CallbackServerContext* call) {
  // gRPC reports no event before this function returns, so session_ is set before the first event.
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

// gRPC ends the call itself when a message is over its limit, and reports the reason only to the
// client. The server detects this case as follows: the call was cancelled although the connection
// brought a whole message. No other end of a rank's call looks like that, because ranks never end
// only their half. A read that started after the cancellation gives no information. Only OnDone()
// knows whether the call was cancelled.
void AttachReactor::OnDone() {
  if (ended_after_message_ && cancelled_) session_->OnMessageTooLarge();
  session_->OnDone();  // takes the mutex, so it waits until Finish() has returned
  delete this;
}

void AttachReactor::Finish(const absl::Status& status) {
  ServerBidiReactor::Finish(ToGrpc(status));
}

}  // namespace ranklog::ingest
