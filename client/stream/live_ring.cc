#include "client/stream/live_ring.h"

namespace ranklog::internal {

// The mark comes from another process. A wrong one must not free what was not written. What
// reader_ has not passed is freed at the next call.
void LiveRing::TakeStored(Time now) {
  v1::SpoolHeader* const header = ring_.spool->header();
  const uint64_t tail = header->tail.load(std::memory_order_relaxed);
  const auto& mark = header->stored_marks[header->stored.load(std::memory_order_acquire) & 1];
  const uint64_t end = mark.end.load(std::memory_order_relaxed);
  const bool valid = end > tail && end <= reader_.position() && end % v1::kRecordAlign == 0;
  if (valid) {
    ring_.durable_rows.store(mark.rows.load(std::memory_order_relaxed), std::memory_order_relaxed);
    ring_.durable_items.store(mark.items.load(std::memory_order_relaxed),
                              std::memory_order_relaxed);
    ring_.durable_end.store(end, std::memory_order_release);
    header->tail.store(end, std::memory_order_release);
  }
  const auto waits_since = ring_.unanswered_since.load(std::memory_order_relaxed);
  if (AllStored()) {
    ring_.unanswered_since.store({}, std::memory_order_relaxed);
  } else if (valid || waits_since == Time::duration()) {
    ring_.unanswered_since.store(now.time_since_epoch(), std::memory_order_relaxed);
  }
}

void LiveRing::Advance(Time now, int64_t open_step) {
  v1::RecordKind kind;
  while (reader_.Peek(&kind)) {
    if (kind == v1::RecordKind::kShape) reader_.Shape();
    if (kind == v1::RecordKind::kRow) {
      const RowView row = reader_.Row();
      progress_.OnRow(row.record.step, row.commits());
    }
    reader_.Skip();
  }
  TakeStored(now);
  if (reader_.position() == ring_.head()) {
    const auto passed = progress_.Next(now, reader_.position(), open_step);
    if (passed) ring_.spool->header()->least_step.store(*passed + 1, std::memory_order_release);
  }
  if (!ring_.closing.load(std::memory_order_acquire) || done()) return;
  // Once the ring is closing, nothing more is written, so the head that is read now is the last one.
  if (AllStored()) ring_.finish_durable.store(true, std::memory_order_release);
}

bool LiveRing::AllStored() const {
  return ring_.durable_end.load(std::memory_order_relaxed) == ring_.head();
}

const std::string* LiveRing::Damage() const {
  const bool stored = ring_.durable_end.load(std::memory_order_relaxed) >= reader_.position();
  return reader_.damage().empty() || !stored ? nullptr : &reader_.damage();
}

}  // namespace ranklog::internal
