// A ring of a forked child. The child sends nothing, since it inherited a gRPC that is in use: the
// daemon reads the ring while it grows, and writes into its header how far it has stored it.
//
// This is the child's side of that, without sockets: what the daemon has stored is freed, and the
// steps that an idle ring has passed are published.

#ifndef CLIENT_STREAM_LIVE_RING_H_
#define CLIENT_STREAM_LIVE_RING_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "client/ring/ring.h"
#include "client/ring/ring_reader.h"
#include "client/stream/idle_progress.h"

namespace ranklog::internal {

// Uses no clock, thread or socket. For one thread at a time, the thread that frees the ring.
class LiveRing {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit LiveRing(Ring* ring) : ring_(*ring), reader_(ring->spool.get()) {}  // outlives this

  // Frees what the daemon has stored since the last call, and publishes the passed steps.
  // `open_step`: the open step of the run.
  void Advance(Time now, int64_t open_step);

  // The daemon has all records.
  bool AllStored() const;
  // The ring takes no more rows, and the daemon has all of them.
  bool done() const { return ring_.finish_durable.load(std::memory_order_relaxed); }
  // The damage after which the ring cannot be read. Null while there is none, or while records
  // before it are not stored yet.
  const std::string* Damage() const;

 private:
  void TakeStored(Time now);

  Ring& ring_;
  RingReader reader_;  // up to the last record that was seen
  IdleProgress progress_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_LIVE_RING_H_
