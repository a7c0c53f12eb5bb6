// A ring, its writer, and its durable position.

#ifndef CLIENT_RING_RING_H_
#define CLIENT_RING_RING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "client/ring/ring_writer.h"
#include "client/ring/spool/spool.h"

namespace ranklog::internal {

// Shared by the sender and the run. The run lends it to one thread at a time.
struct Ring {
  explicit Ring(std::unique_ptr<Spool> made) : spool(std::move(made)), writer(spool.get()) {}

  // The thread's ring before this one, if the thread continues here with an item that was too large
  // for it. Its items up to `items_before` must be durable before an item of this ring is sent, so
  // that the later one counts. Set before the sender gets the ring; released by the sender.
  std::shared_ptr<const Ring> before;
  uint64_t items_before = 0;

  const std::unique_ptr<Spool> spool;
  RingWriter writer;  // of the thread that logs

  // Written by the sender.
  std::atomic<uint64_t> durable_rows = 0;
  std::atomic<uint64_t> durable_items = 0;
  std::atomic<uint64_t> durable_end = 0;  // all records up to here are done
  std::atomic<bool> attached = false;     // a daemon takes its rows
  // When the current wait for an acknowledgement began. 0: all sent rows are acknowledged.
  std::atomic<std::chrono::steady_clock::duration> unanswered_since{};
  std::atomic<bool> finish_durable = false;  // the daemon has all rows and the end
  std::atomic<bool> given_up = false;        // damaged; nothing more is sent

  // Set by Finish(): no record follows, so report the end to the daemon.
  std::atomic<bool> closing = false;
  // The thread that logs ended in the middle of a call.
  std::atomic<bool> cut_off = false;

  uint64_t head() const { return spool->header()->head.load(std::memory_order_acquire); }
  uint64_t tail() const { return spool->header()->tail.load(std::memory_order_acquire); }
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_RING_H_
