// The protocol between one ring and its daemon, without the transport: which message is next, what
// answers mean, and what they free in the ring. RingStream carries the messages by gRPC.
//
//   Begin() -> Hello -> HelloReply{durable_seq} -> shapes and batches from there on -> Ack ->
//   the ring's tail
//
// The ring is the only copy of unacknowledged records. After a lost connection all of them are read
// again.

#ifndef CLIENT_STREAM_STREAM_PROTOCOL_H_
#define CLIENT_STREAM_STREAM_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ring/ring.h"
#include "client/ring/ring_reader.h"
#include "client/stream/batch_encoder.h"
#include "client/stream/idle_progress.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// Uses no clock, thread or socket. For one thread at a time, the thread that frees the ring.
class StreamProtocol {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit StreamProtocol(Ring* ring);  // outlives this

  // Starts a new connection. Its first message is Hello(), without the credentials.
  void Begin();
  v1::Hello Hello() const;
  // The connection is lost or given up: nothing more is sent on it.
  void End();

  // Handles a message from the daemon.
  void OnMessage(const v1::ServerMessage& message);
  // True once the daemon takes rows on this connection.
  bool attached() const { return attached_; }

  // True while rows were sent and not yet acknowledged.
  bool AwaitsAck() const { return attached_ && !RowsDurable(); }

  // Sets `message` to the next message to write, most urgent first. False: there is none, and
  // `message` is empty. `urgent`: somebody waits for the rows to be durable. `open_step`: the open
  // step of the run. A returned message counts as sent.
  bool Next(Time now, bool urgent, int64_t open_step, v1::ClientMessage* message);

  // Sets `request` to the next Update. False: there is none now. Updates go one at a time, in the
  // ring's order: call OnUpdate() before the next one.
  bool NextUpdate(Time now, v1::UpdateRequest* request) const;
  // Handles the answer to an Update, or the error of the call. An Update that the daemon refuses
  // counts as done, so that it does not block the rest. After any other error it is sent again
  // later.
  void OnUpdate(Time now, absl::StatusCode answer);

  // Sets `request` to the Finish, once the ring is closing and all else is durable. False: not now.
  bool NextFinish(Time now, v1::FinishRequest* request) const;
  void OnFinish(Time now, absl::StatusCode answer);

  // The daemon has acknowledged the end; the ring is no longer needed.
  bool done() const { return ring_->finish_durable.load(std::memory_order_relaxed); }
  // The damage after which nothing more of the ring can be sent. Null while there is none, or while
  // records before it are not durable yet.
  const std::string* Damage() const {
    return reader_.damage().empty() || !RowsDurable() || !controls_.empty() ? nullptr
                                                                            : &reader_.damage();
  }

 private:
  // A range of the ring that was sent, up to `end`.
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
  BatchEncoder encoder_;
  IdleProgress progress_;
  uint64_t durable_seq_ = 0;
  uint64_t read_seq_ = 0;    // the last row that was read, or that the daemon has
  uint64_t passed_seq_ = 0;  // the row that reader_ passed last on this connection
  uint64_t freed_seq_ = 0;   // the last row that was freed from the ring
  std::deque<Sent> sent_;
  std::deque<std::string> controls_;  // read but not answered, oldest first
  // Counts of controls since the ring was made.
  uint64_t controls_read_ = 0;
  uint64_t controls_answered_ = 0;
  uint64_t controls_freed_ = 0;
  Time unary_not_before_;

  // State of this connection.
  bool attached_ = false;
  std::vector<bool> shape_sent_;  // by id
  std::string losses_sent_;       // serialized; empty: none
  Time losses_time_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_STREAM_PROTOCOL_H_
