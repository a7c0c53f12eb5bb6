// The protocol between one ring and its daemon, without the transport: which message is next, what
// answers mean, and what they free in the ring. RingStream carries the messages by gRPC.
//
//   Begin() -> Hello -> HelloReply{durable_seq, durable_item} -> shapes, batches and items from
//   there on, in the ring's order -> Ack -> the ring's tail
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
  // True once the daemon takes records on this connection.
  bool attached() const { return attached_; }

  // True while rows or items were sent and not yet acknowledged.
  bool AwaitsAck() const { return attached_ && !AllDurable(); }

  // Sets `message` to the next message to write, most urgent first. False: there is none, and
  // `message` is empty. `urgent`: somebody waits for the records to be durable. `open_step`: the
  // open step of the run. A returned message counts as sent.
  bool Next(Time now, bool urgent, int64_t open_step, v1::ClientMessage* message);

  // Sets `request` to the Finish, once the ring is closing and all else is durable. If the program
  // gave no exit code, main() may be about to return one: then 2 s later. False: not now.
  bool NextFinish(Time now, v1::FinishRequest* request);
  void OnFinish(Time now, absl::StatusCode answer);

  // The daemon has acknowledged the end; the ring is no longer needed.
  bool done() const { return ring_->finish_durable.load(std::memory_order_relaxed); }
  // The damage after which nothing more of the ring can be sent. Null while there is none, or while
  // records before it are not durable yet.
  const std::string* Damage() const {
    return reader_.damage().empty() || !AllDurable() ? nullptr : &reader_.damage();
  }

 private:
  // A range of the ring that was sent, up to `end`. The daemon needs no part of it any more once it
  // has row `seq` and item `item`.
  struct Sent {
    uint64_t end;
    uint64_t seq;
    uint64_t item;
    bool shape = false;  // row `seq` comes later
  };

  bool NextRecords(bool urgent, v1::ClientMessage* message);
  // Whether an item must wait for those of the thread's earlier ring.
  bool AwaitsRingBefore();
  void NextItems(bool urgent, v1::ClientMessage* message);
  void DefineShape(uint32_t shape, v1::ClientMessage* message);
  void Free();
  bool AllDurable() const { return durable_seq_ >= read_seq_ && durable_item_ >= read_item_; }
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
  // The same for items.
  uint64_t durable_item_ = 0;
  uint64_t read_item_ = 0;
  uint64_t freed_item_ = 0;
  std::deque<Sent> sent_;
  Time finish_not_before_;
  bool saw_closing_ = false;

  // State of this connection.
  bool attached_ = false;
  std::vector<bool> shape_sent_;  // by id
  std::string losses_sent_;       // serialized; empty: none
  Time losses_time_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_STREAM_PROTOCOL_H_
