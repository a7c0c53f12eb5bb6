// The gRPC call of one stream: carries the messages of an AttachSession over gRPC.

#ifndef SERVICE_INGEST_SERVER_ATTACH_REACTOR_H_
#define SERVICE_INGEST_SERVER_ATTACH_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/server/attach_session.h"

namespace ranklog::ingest {

// Deletes itself when gRPC is done with it. Its session may live longer, because writes that the
// store has not answered share it.
class AttachReactor final : public grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>,
                            private AttachSession::Call {
 public:
  // Starts reading. `context` must outlive the server.
  static AttachReactor* Start(const IngestContext* context, grpc::CallbackServerContext* call);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override;

 private:
  explicit AttachReactor(grpc::CallbackServerContext* call) : call_(*call) {}

  void Read() override;
  void Write(const v1::ServerMessage& message) override { StartWrite(&message); }
  void Finish(const absl::Status& status) override;

  grpc::CallbackServerContext& call_;  // owned by gRPC; valid until OnDone() returns
  v1::ClientMessage incoming_;         // buffer of the current read
  std::atomic<bool> cancelled_ = false;
  bool started_cancelled_ = false;  // the call was cancelled before the current read
  // The last read failed although the connection brought a message.
  bool ended_after_message_ = false;
  std::shared_ptr<AttachSession> session_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_ATTACH_REACTOR_H_
