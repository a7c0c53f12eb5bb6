// The gRPC call of one stream: AttachSession's messages, as gRPC carries them.

#ifndef SERVICE_INGEST_ATTACH_REACTOR_H_
#define SERVICE_INGEST_ATTACH_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/attach_session.h"

namespace ranklog::ingest {

// Deletes itself when gRPC is done with it; its session may live longer, in the writes that the
// store has not answered.
class AttachReactor final : public grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>,
                            private AttachSession::Call {
 public:
  // Starts to read. `context` outlives the server.
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

  grpc::CallbackServerContext& call_;  // gRPC's, until OnDone() returns
  v1::ClientMessage incoming_;         // of the read under way
  std::atomic<bool> cancelled_ = false;
  bool started_cancelled_ = false;    // the read under way
  bool ended_after_message_ = false;  // the last read failed, and not for want of a message
  std::shared_ptr<AttachSession> session_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ATTACH_REACTOR_H_
