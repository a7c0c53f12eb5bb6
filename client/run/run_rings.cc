// The rings of a run: which one a thread writes to, when a new one is made, and what they have counted.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/ring/ticks.h"
#include "client/run/run_state.h"
#include "client/stream/sender.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRingRetry{1};  // after a failure to make a ring

// Rings of an ancestor, in a forked child. They stay mapped and open, so that nothing in them
// changes.
std::vector<std::shared_ptr<Ring>>& InheritedRings() {
  static auto* const rings = new std::vector<std::shared_ptr<Ring>>;
  return *rings;
}

void AddTo(Stats* stats, const Ring& ring) {
  const v1::SpoolHeader& header = *ring.spool->header();
  const uint64_t rows = header.rows.load(std::memory_order_relaxed);
  const uint64_t durable = ring.durable_rows.load(std::memory_order_relaxed);
  stats->rows_logged += rows;
  stats->rows_durable += durable;
  if (ring.given_up.load(std::memory_order_relaxed)) {
    stats->lost_damaged += std::max(rows, durable) - durable;
  }
  for (const LossReason& reason : kLossReasons) {
    stats->*reason.in_stats += (header.*reason.in_ring).load(std::memory_order_relaxed);
  }
  const uint64_t items = header.items.load(std::memory_order_relaxed);
  stats->updates_pending += items - std::min(items, ring.durable_items.load());
  stats->updates_refused += header.lost_items.load(std::memory_order_relaxed);
  stats->lost_values += header.lost_values.load(std::memory_order_relaxed);
  stats->connected |= ring.attached.load(std::memory_order_relaxed);
}

}  // namespace

RingWriter* RunState::FindWriter() {
  // A signal handler that interrupts this would wait for a lock of its own thread.
  if (!usable_ || WriterSearch::InProgress()) return nullptr;
  const WriterSearch finds_writer;
  std::shared_ptr<Ring> ring = FindThreadRing(token_);
  if (ring == nullptr) {
    if (closed_.load(std::memory_order_relaxed)) return nullptr;
    ring = AcquireRing(/*record_bytes=*/0, kMaxStep);
    if (ring == nullptr) return nullptr;
    ring->writer.Lend(/*step=*/0);
    AddThreadRing(token_, weak_from_this(), ring);
  }
  UseRing(ring);
  return &ring->writer;  // the run owns the ring
}

void RunState::UseRing(const std::shared_ptr<Ring>& ring) {
  // A signal handler must not see one run's token with another run's writer.
  thread_cache.token = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread_cache.writer = &ring->writer;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread_cache.token = token_;
}

bool RunState::TakeLargerRing(const RingWriter& writer) {
  if (writer.too_large() > settings_.spool_bytes / 2) return false;
  return TakeOtherRing(writer, writer.too_large(), writer.least_step_of_thread());
}

bool RunState::TakeRingFrom(int64_t step, const RingWriter& writer) {
  return step >= writer.least_step_of_thread() && TakeOtherRing(writer, /*record_bytes=*/0, step);
}

bool RunState::TakeOtherRing(const RingWriter& writer, size_t record_bytes, int64_t step) {
  if (WriterSearch::InProgress()) return false;
  const WriterSearch finds_writer;
  const std::shared_ptr<Ring> ring = AcquireRing(record_bytes, step);
  if (ring == nullptr) return false;
  ContinueIn(ring, writer);
  return true;
}

bool RunState::TakeRingForItem(const RingWriter& writer) {
  if (writer.too_large() > v1::kMaxRingBytes / 2 || WriterSearch::InProgress()) return false;
  const WriterSearch finds_writer;
  uint32_t thread;
  {
    MutexLock lock(StateMutex());
    if (Clock::now() < no_larger_ring_before_) return false;
    thread = next_thread_++;
  }
  // Not an idle ring: it may have items of its own, and the sender reads it already.
  const std::shared_ptr<Ring> ring = MakeRing(thread, writer.too_large(), FindThreadRing(token_));
  if (ring == nullptr) return false;
  ContinueIn(ring, writer);
  return true;
}

void RunState::ContinueIn(const std::shared_ptr<Ring>& ring, const RingWriter& writer) {
  ring->writer.Lend(writer.least_step_of_thread());
  // The other ring stays this thread's until the thread ends, because a call is still writing to
  // it.
  AddThreadRing(token_, weak_from_this(), ring);
  UseRing(ring);
}

std::shared_ptr<Ring> RunState::AcquireRing(size_t record_bytes, int64_t step) {
  uint32_t thread;
  {
    MutexLock lock(StateMutex());
    ForgetParent();
    const auto idle = std::find_if(idle_rings_.rbegin(), idle_rings_.rend(), [&](const auto& ring) {
      return ring->spool->data_bytes() / 2 >= record_bytes && ring->writer.least_step() <= step;
    });
    if (idle != idle_rings_.rend()) {
      std::shared_ptr<Ring> ring = std::move(*idle);
      idle_rings_.erase(std::next(idle).base());
      return ring;
    }
    if (Clock::now() < (record_bytes > 0 ? no_larger_ring_before_ : no_ring_before_)) {
      return nullptr;
    }
    if (record_bytes == 0) RetireOldestIdle();  // all are above the step: replace one ring
    thread = next_thread_++;
  }
  return MakeRing(thread, record_bytes);
}

std::shared_ptr<Ring> RunState::MakeRing(uint32_t thread, size_t record_bytes,
                                         std::shared_ptr<const Ring> before) {
  v1::Hello hello = hello_;
  hello.mutable_identity()->set_thread(thread);
  hello.mutable_identity()->set_pid(getpid());
  hello.mutable_ring()->set_read_live(Generation() > 0);
  auto spool =
      Spool::Create({settings_.spool_dir, settings_.spool_bytes, record_bytes}, std::move(hello));
  if (!spool.ok()) {
    SetLastError(std::string(spool.status().message()));
    MutexLock lock(StateMutex());
    (record_bytes > 0 ? no_larger_ring_before_ : no_ring_before_) = Clock::now() + kRingRetry;
    return nullptr;
  }
  auto ring = std::make_shared<Ring>(*std::move(spool));
  if (before != nullptr) {
    ring->items_before = before->spool->header()->items.load(std::memory_order_relaxed);
    ring->before = std::move(before);
  }
  {
    MutexLock lock(StateMutex());
    if (const std::string& notice = ring->spool->notice(); !notice.empty()) {
      last_error_ = notice;
      if (spool_notice_.empty()) spool_notice_ = notice;
    }
    if (closed_.load()) {  // Finish() did not see the ring, so it must stay empty
      ring->spool->Unlink();
      return nullptr;
    }
    idle_rings_.reserve(rings_.size() + 1);  // ReturnRing() must not fail
    rings_.push_back(ring);
    ring->writer.steps_word = steps_->AddRing();
    ProcessTickRate().Measure();
    ProcessTickRate().Calibrate(ring->spool->header());
    // A helper process is often killed when it is done. Its end says nothing about the run.
    if (IsGuest())
      ring->spool->header()->finished.store(v1::kFinishedByCall, std::memory_order_relaxed);
    MoveLossesToRing();
    // Not earlier: if the process ended after Finish(), a ring that Finish() did not see would mark
    // the run as crashed.
    ring->spool->Publish();
  }
  Sender::Get()->Add(shared_from_this(), ring);
  return ring;
}

void RunState::ReturnRing(std::shared_ptr<Ring> ring) {
  MutexLock lock(StateMutex());
  idle_rings_.push_back(std::move(ring));
}

void RunState::ForgetParent() {
  if (generation_ == Generation()) return;
  // Without memory for these two, the next call tries again.
  auto messages = std::make_unique<UserMessages>(settings_, nullptr);
  InheritedRings().insert(InheritedRings().end(), rings_.begin(), rings_.end());
  generation_ = Generation();
  rings_.clear();
  idle_rings_.clear();
  dropped_ = {};
  next_thread_ = 0;
  last_error_.clear();
  invalid_.clear();
  left_out_.clear();
  connection_error_.clear();
  why_full_rows_ = 0;
  spool_notice_.clear();
  daemon_error_.clear();
  static_cast<void>(messages_.release());  // the parent's sender may have been using it
  messages_ = std::move(messages);
  prints_last_line_ = false;
  is_forked_ = true;
  attention_.fetch_and(~kFactsAreDue);  // the facts are those of the parent
  facts_state_ = Facts::kDone;
  staging_ = 0;  // the copies are the parent's
  staging_abandoned_ = false;
  staging_cancelled_ = false;
  saved_.clear();
  saves_are_watched_ = saves_ended_ = false;
  delivery_ = Delivery::kNotAwaited;
  for (auto& rows : lost_without_ring_) rows = 0;
  lost_items_ = 0;
  refused_item_.clear();
}

void RunState::RetireOldestIdle() {
  const auto oldest = std::find_if(idle_rings_.begin(), idle_rings_.end(), [](const auto& ring) {
    return ring->spool->hello().identity().thread() != 0;
  });
  if (oldest != idle_rings_.end()) {
    (*oldest)->spool->header()->finished.store(v1::kFinishedByCall, std::memory_order_release);
    (*oldest)->closing.store(true, std::memory_order_release);
    idle_rings_.erase(oldest);
  }
  std::erase_if(rings_, [this](const auto& ring) {
    const bool is_done =
        ring->finish_durable.load(std::memory_order_acquire) && ring.use_count() == 1;
    if (is_done) AddTo(&dropped_, *ring);
    return is_done;
  });
}

void RunState::MoveLossesToRing() {
  if (rings_.empty()) return;
  v1::SpoolHeader& ring = *rings_.front()->spool->header();
  for (size_t i = 0; i < std::size(kLossReasons); ++i) {
    if (lost_without_ring_[i].load(std::memory_order_relaxed) == 0) continue;
    const uint64_t rows = lost_without_ring_[i].exchange(0, std::memory_order_relaxed);
    (ring.*kLossReasons[i].in_ring).fetch_add(rows, std::memory_order_relaxed);
  }
  ring.lost_items.fetch_add(lost_items_.exchange(0), std::memory_order_relaxed);
}

std::vector<std::shared_ptr<Ring>> RunState::Rings() {
  MutexLock lock(StateMutex());
  ForgetParent();
  MoveLossesToRing();
  return rings_;
}

Stats RunState::GetStats() const {
  MutexLock lock(StateMutex());
  Stats stats;
  if (generation_ == Generation()) {  // otherwise a child that has not logged yet
    stats = dropped_;
    for (const auto& ring : rings_) AddTo(&stats, *ring);
  }
  for (size_t i = 0; i < std::size(kLossReasons); ++i) {
    stats.*kLossReasons[i].in_stats += lost_without_ring_[i].load(std::memory_order_relaxed);
  }
  stats.updates_refused += lost_items_.load(std::memory_order_relaxed);
  if (Stalled() >= UserMessages::kConnectGrace) stats.connected = false;
  stats.last_error = LastError(stats.lost_ring_full);
  stats.run_id = run_id_.empty() ? settings_.run_id : run_id_;
  return stats;
}

}  // namespace ranklog::internal
