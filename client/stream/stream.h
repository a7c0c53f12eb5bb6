// Carries one ring to the daemon: an Attach call per connection, and the Finish call beside it.
// StreamProtocol makes and reads the messages.

#ifndef CLIENT_STREAM_STREAM_H_
#define CLIENT_STREAM_STREAM_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "client/stream/socket/connection.h"
#include "client/stream/stream_protocol.h"
#include "client/stream/streamed_run.h"

namespace ranklog::internal {

// Use it on the sender's thread, or on a thread that has paused the sender.
class RingStream : public CallListener {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RingStream(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring);

  // Begins on a new connection. `attached` receives the daemon's answer. If the answer asks for the
  // ring's descriptor, the caller must pass it.
  void Attach(Connection* connection, std::function<void(const v1::HelloReply&)> attached);
  // Cancels all calls. Then call the connection's Drain(), then Detach().
  void Cancel();
  void Detach();

  // Starts the operations that can start now. `urgent`: somebody waits for the rows to be durable.
  void Advance(Time now, bool urgent);

  void OnDone(int operation, bool ok) override;

  enum class Health {
    kGood,
    kLost,     // the connection broke
    kRefused,  // the daemon refused this stream; the connection works
  };
  Health health() const { return health_; }
  const std::string& error() const { return error_; }

  // True while an operation is in progress that ends without the daemon, or while the first answer
  // is pending.
  bool expects_soon() const {
    return health_ == Health::kGood && (writing_ || (call_ != nullptr && !attached()));
  }
  // True while the reply to the Hello is pending.
  bool attaches() const {
    return health_ == Health::kGood && call_ != nullptr && !cancelled_ && !attached() && !done();
  }
  // True while it has no connection.
  bool waits() const { return connection_ == nullptr; }
  // All calls have ended, so Detach() needs no Drain().
  bool quiet() const { return outstanding_ == 0; }
  // The ring is no longer needed: the daemon has acknowledged its end, or the ring was damaged and
  // given up. The daemon reads what it can from a damaged ring after this process has ended.
  bool done() const {
    return (finished() && !AwaitsDelivery()) || ring_->given_up.load(std::memory_order_relaxed);
  }
  // All of the ring was sent. The call may stay open to receive delivery notices.
  bool finished() const { return protocol_.done(); }
  bool attached() const { return protocol_.attached(); }
  // The daemon has sent a message on this connection. It may be the reason why it does not take the
  // stream.
  bool received_message() const { return received_message_; }
  Time attach_time() const { return attach_time_; }
  // Something was asked of the daemon before `time`, and no answer of any kind has come since.
  bool WaitsSince(Time time) const { return asked_ < time; }
  // When the daemon last answered; at first, when the connection was made.
  Time heard() const { return heard_; }

  const std::shared_ptr<StreamedRun>& run() const { return run_; }
  const std::shared_ptr<Ring>& ring() const { return ring_; }

 private:
  enum Operation { kStart, kRead, kWrite, kEnd, kFinish, kOperations };

  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::ClientMessage, v1::ServerMessage>> stream;
    v1::ServerMessage incoming;
    grpc::Status status;
  };
  struct FinishCall {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::FinishReply>> reader;
    v1::FinishReply reply;
    grpc::Status status;
  };

  CallTag* Tag(Operation operation);
  bool AwaitsDelivery() const;
  void Fail(Health health, const std::string& error);
  void Write();
  void WriteHello();
  void GiveUp(const std::string& damage);
  void NoteProgress(Time now);
  void Hear();
  void StartFinish(const v1::FinishRequest& request);
  void OnFinish();

  const std::shared_ptr<StreamedRun> run_;
  const std::shared_ptr<Ring> ring_;
  CallTag tags_[kOperations];
  StreamProtocol protocol_;
  v1::ClientMessage message_;

  // State of this connection.
  Connection* connection_ = nullptr;
  std::function<void(const v1::HelloReply&)> on_attached_;
  std::unique_ptr<Call> call_;
  std::unique_ptr<FinishCall> finish_;
  Time attach_time_;
  Time heard_;
  Time asked_ = Time::max();
  Health health_ = Health::kGood;
  std::string error_;
  bool cancelled_ = false;  // start no further operation
  bool writing_ = false;
  bool received_message_ = false;
  uint64_t durable_end_ = 0;  // when progress was last noted
  int outstanding_ = 0;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_STREAM_H_
