// Carries one ring to the daemon: an Attach call per connection, the unary calls beside it, and
// what is freed of the ring as they are answered.
//
//   Attach() -> Hello -> HelloReply{durable_seq} -> shapes and batches from there on -> Ack -> the
//   ring's tail
//
// The ring is the only copy of what is not acknowledged: after a lost connection all of it is read
// again.

#ifndef CLIENT_STREAM_H_
#define CLIENT_STREAM_H_

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "client/batch_builder.h"
#include "client/connection.h"
#include "client/progress.h"
#include "client/ring_reader.h"
#include "client/run_state.h"

namespace ranklog::internal {

// For the sender's thread, or who holds it off.
class RingStream : public CallListener {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RingStream(std::shared_ptr<RunState> run, std::shared_ptr<Ring> ring);

  // Begins on a new connection. `pass_descriptor` is called if the daemon asks for the ring's
  // descriptor.
  void Attach(Connection* connection, std::function<void()> pass_descriptor);
  // Ends all calls; the connection's Drain() follows, then Detach().
  void Cancel();
  void Detach();

  // Starts what can be started now. `urgent`: somebody waits for the rows to be durable.
  void Advance(Time now, bool urgent);

  void OnDone(int operation, bool ok) override;

  enum class Health {
    kGood,
    kLost,     // the connection is gone
    kRefused,  // the daemon will not have this stream as it is; the connection is fine
  };
  Health health() const { return health_; }
  const std::string& error() const { return error_; }

  // An operation is under way that ends without the daemon's doing, or its first answer is awaited.
  bool expects_soon() const {
    return health_ == Health::kGood && (writing_ || (call_ != nullptr && !attached_));
  }
  // All calls have ended: Detach() needs no Drain().
  bool quiet() const { return outstanding_ == 0; }
  // The daemon has acknowledged the end: the ring is of no more use.
  bool done() const { return ring_->finish_durable.load(std::memory_order_relaxed); }
  bool attached() const { return attached_; }
  Time attach_time() const { return attach_time_; }

  const std::shared_ptr<RunState>& run() const { return run_; }
  const std::shared_ptr<Ring>& ring() const { return ring_; }

 private:
  enum Operation { kStart, kRead, kWrite, kEnd, kUpdate, kFinish, kOperations };

  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::ClientMessage, v1::ServerMessage>> stream;
    v1::ServerMessage incoming;
    grpc::Status status;
  };
  template <typename Reply>
  struct Unary {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
    Reply reply;
    grpc::Status status;
  };
  // A stretch of the ring that was sent, up to `end`.
  struct Sent {
    uint64_t end;
    uint64_t seq;  // durable once the daemon has this row
    bool control;  // durable once its Update was answered
    bool answered = false;
  };

  CallTag* Tag(Operation operation);
  void Fail(Health health, const std::string& error);
  void HandleMessage();
  void HandleReply(const v1::HelloReply& reply);
  void Write();
  void WriteHello();
  bool WriteNext(Time now, bool urgent);
  bool WriteRows(bool urgent);
  void WriteShape(uint32_t shape);
  void TakeControl();
  void StartUpdate(Time now);
  void OnUpdate();
  void StartFinish(Time now);
  void OnFinish();
  void Free();
  bool RowsDurable() const { return durable_seq_ >= read_seq_; }
  v1::Losses CurrentLosses() const;

  const std::shared_ptr<RunState> run_;
  const std::shared_ptr<Ring> ring_;
  v1::SpoolHeader* const header_;
  CallTag tags_[kOperations];
  RingReader reader_;
  BatchBuilder builder_;
  Progress progress_;
  v1::ClientMessage message_;
  uint64_t durable_seq_ = 0;
  uint64_t read_seq_ = 0;  // of the last row read
  std::deque<Sent> sent_;
  std::deque<std::string> controls_;  // read and not answered, oldest first
  // Counts of controls since the ring was made.
  uint64_t controls_read_ = 0;
  uint64_t controls_answered_ = 0;
  uint64_t controls_freed_ = 0;

  // Of this connection.
  Connection* connection_ = nullptr;
  std::function<void()> pass_descriptor_;
  std::unique_ptr<Call> call_;
  std::unique_ptr<Unary<v1::UpdateReply>> update_;
  std::unique_ptr<Unary<v1::FinishReply>> finish_;
  std::vector<bool> shape_sent_;  // by id
  v1::Losses losses_sent_;
  Time losses_time_;
  Time unary_not_before_;
  Time attach_time_;
  Health health_ = Health::kGood;
  std::string error_;
  bool cancelled_ = false;  // start nothing more
  bool attached_ = false;
  bool writing_ = false;
  bool urgent_ = false;
  int outstanding_ = 0;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_H_
