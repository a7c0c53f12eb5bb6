// The gRPC call of one stream: carries the messages of an AttachSession over gRPC.

#ifndef SERVICE_INGEST_SERVER_ATTACH_REACTOR_H_
#define SERVICE_INGEST_SERVER_ATTACH_REACTOR_H_

#include <grpcpp/grpcpp.h>

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
  void OnDone() override;

 private:
  AttachReactor() = default;

  void Read() override { StartRead(&incoming_); }
  void Write(const v1::ServerMessage& message) override { StartWrite(&message); }
  void Finish(const absl::Status& status) override;

  v1::ClientMessage incoming_;  // buffer of the current read
  std::shared_ptr<AttachSession> session_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_ATTACH_REACTOR_H_
