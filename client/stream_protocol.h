// What one ring and its daemon say to each other, apart from how it is carried: the messages that
// are next, what answers mean, and what of the ring they free. RingStream carries them by gRPC.
//
//   Begin() -> Hello -> HelloReply{durable_seq} -> shapes and batches from there on -> Ack -> the
//   ring's tail
//
// The ring is the only copy of what is not acknowledged: after a lost connection all of it is read
// again.

#ifndef CLIENT_STREAM_PROTOCOL_H_
#define CLIENT_STREAM_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/batch_builder.h"
#include "client/progress.h"
#include "client/ring.h"
#include "client/ring_reader.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// Knows no clock, thread or socket. For one thread at a time, the one that frees the ring.
class StreamProtocol {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit StreamProtocol(Ring* ring);  // outlives this

  // A connection begins: its first message is Hello(), which lacks the credentials.
  void Begin();
  v1::Hello Hello() const;
  // The connection is gone, or to be given up: nothing more is sent on it.
  void End();

  // A message of the daemon.
  void OnMessage(const v1::ServerMessage& message);
  // The daemon takes rows on this connection.
  bool attached() const { return attached_; }

  // It has sent rows, and has no answer yet.
  bool AwaitsAck() const { return attached_ && !RowsDurable(); }

  // The next message to write, the most pressing first. False: there is none, and `message` is
  // empty. `urgent`: somebody waits for the rows to be durable. `open_step`: the run's. What it
  // returns counts as sent.
  bool Next(Time now, bool urgent, int64_t open_step, v1::ClientMessage* message);

  // The Update that is to be sent; false: there is none now. One at a time, in the ring's order:
  // OnUpdate() before the next.
  bool NextUpdate(Time now, v1::UpdateRequest* request) const;
  // Its answer, or how the call failed. What the daemon will not have counts as dealt with, so that
  // it does not stop the rest; all else is sent again after a while.
  void OnUpdate(Time now, absl::StatusCode answer);

  // The Finish, once the ring is closing and all else is durable; false: not now.
  bool NextFinish(Time now, v1::FinishRequest* request) const;
  void OnFinish(Time now, absl::StatusCode answer);

  // The daemon has acknowledged the end: the ring is of no more use.
  bool done() const { return ring_->finish_durable.load(std::memory_order_relaxed); }
  // Why nothing more of the ring can be sent, once all before that is durable; null: it can.
  const std::string* Damage() const {
    return reader_.damage().empty() || !RowsDurable() || !controls_.empty() ? nullptr
                                                                            : &reader_.damage();
  }

 private:
  // A stretch of the ring that was sent, up to `end`.
  struct Sent {
    uint64_t end;
    uint64_t seq;  // durable once the daemon has this row
    bool control;  // durable once its Update was answered
    bool rows;     // holds the rows up to `seq`
    bool answered = false;
  };

  bool NextRows(bool urgent, v1::ClientMessage* message);
  void DefineShape(uint32_t shape, v1::ClientMessage* message);
  void TakeControl();
  void Free();
  bool RowsDurable() const { return durable_seq_ >= read_seq_; }
  v1::Losses CurrentLosses() const;

  Ring* const ring_;
  v1::SpoolHeader* const header_;
  RingReader reader_;
  BatchBuilder builder_;
  Progress progress_;
  uint64_t durable_seq_ = 0;
  uint64_t read_seq_ = 0;   // of the last row read
  uint64_t freed_seq_ = 0;  // of the last row that is not in the ring any more
  std::deque<Sent> sent_;
  std::deque<std::string> controls_;  // read and not answered, oldest first
  // Counts of controls since the ring was made.
  uint64_t controls_read_ = 0;
  uint64_t controls_answered_ = 0;
  uint64_t controls_freed_ = 0;
  Time unary_not_before_;

  // Of this connection.
  bool attached_ = false;
  std::vector<bool> shape_sent_;  // by id
  v1::Losses losses_sent_;
  Time losses_time_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_PROTOCOL_H_
