// A ring with who writes it and how far it is durable.

#ifndef CLIENT_RING_H_
#define CLIENT_RING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "client/ring_writer.h"
#include "client/spool.h"

namespace ranklog::internal {

// Shared by the run, which lends it to one thread at a time, and the sender.
struct Ring {
  explicit Ring(std::unique_ptr<Spool> made) : spool(std::move(made)), writer(spool.get()) {}

  const std::unique_ptr<Spool> spool;
  RingWriter writer;  // of the thread that logs

  // Written by the sender.
  std::atomic<uint64_t> durable_rows = 0;
  std::atomic<uint64_t> durable_controls = 0;
  std::atomic<uint64_t> durable_end = 0;  // all records up to here need no more care
  std::atomic<bool> attached = false;     // a daemon takes it
  // Since when it has taken none of the rows that it was sent; 0: it owes no answer.
  std::atomic<std::chrono::steady_clock::duration> owed_since{};
  std::atomic<bool> finish_durable = false;  // the daemon has it all, and that it has ended
  std::atomic<bool> given_up = false;        // it is damaged; nothing more of it is sent

  // Written by Finish(): no record follows, tell the daemon so.
  std::atomic<bool> closing = false;
  // The thread that logs has ended in the middle of a call.
  std::atomic<bool> cut_off = false;

  uint64_t head() const { return spool->header()->head.load(std::memory_order_acquire); }
  uint64_t tail() const { return spool->header()->tail.load(std::memory_order_acquire); }
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_H_
