#include "client/stream/stream_protocol.h"

#include <algorithm>
#include <utility>

namespace ranklog::internal {
namespace {

// The most bytes of a ring that a stream has unacknowledged at the daemon.
constexpr uint64_t kMaxUnacknowledged = 8 << 20;
constexpr std::chrono::seconds kLossesInterval{1};
constexpr std::chrono::seconds kFinishRetry{1};
constexpr std::chrono::seconds kLastMoments{2};  // of a process whose Run was destroyed
// Larger messages are not cheaper per item. A larger item has a message of its own.
constexpr size_t kMaxItemBytes = 1 << 20;

}  // namespace

StreamProtocol::StreamProtocol(Ring* ring)
    : ring_(ring), header_(ring->spool->header()), reader_(ring->spool.get()) {}

void StreamProtocol::Begin() {
  attached_ = false;
  shape_sent_.clear();
  losses_sent_.clear();
  progress_.Reset();
  // Everything that was not freed is read again. The daemon says how much of it to skip.
  reader_.Rewind();
  sent_.clear();
  read_seq_ = durable_seq_;
  read_item_ = durable_item_;
  passed_seq_ = freed_seq_;
}

v1::Hello StreamProtocol::Hello() const {
  v1::Hello hello = ring_->spool->hello();
  hello.set_first_seq(freed_seq_ + 1);
  hello.set_first_item(freed_item_ + 1);
  return hello;
}

void StreamProtocol::End() {
  attached_ = false;
  ring_->attached.store(false, std::memory_order_relaxed);
}

void StreamProtocol::OnMessage(const v1::ServerMessage& message) {
  if (message.has_hello()) {
    // May be less than an earlier daemon acknowledged, if the store of that daemon is gone.
    durable_seq_ = message.hello().durable_seq();
    read_seq_ = durable_seq_;
    durable_item_ = read_item_ = message.hello().durable_item();
    attached_ = true;
    ring_->attached.store(true, std::memory_order_relaxed);
  } else if (message.has_ack()) {
    durable_seq_ = std::max(durable_seq_, message.ack().durable_seq());
    durable_item_ = std::max(durable_item_, message.ack().durable_item());
  } else {
    return;
  }
  Free();
}

bool StreamProtocol::Next(Time now, bool urgent, int64_t open_step, v1::ClientMessage* message) {
  if (NextRecords(urgent, message)) return true;
  if (now - losses_time_ >= kLossesInterval &&
      CurrentLosses().SerializeAsString() != losses_sent_) {
    losses_time_ = now;
    *message->mutable_losses() = CurrentLosses();
    losses_sent_ = message->losses().SerializeAsString();
    return true;
  }
  if (reader_.position() != ring_->head()) return false;
  const auto passed = progress_.Next(now, reader_.position(), open_step);
  if (passed) message->mutable_progress()->set_passed_step(*passed);
  return passed.has_value();
}

bool StreamProtocol::NextRecords(bool urgent, v1::ClientMessage* message) {
  const TickReader ticks(*header_);
  const uint64_t freed = header_->tail.load(std::memory_order_relaxed);
  v1::Batch* const batch = message->mutable_batch();
  encoder_.Start(batch);
  v1::RecordKind kind;
  while (reader_.Peek(&kind)) {
    // Padding after the last record that was sent awaits nothing, and may be larger than the limit.
    const uint64_t sent_to = sent_.empty() ? freed : sent_.back().end;
    if ((encoder_.empty() ? sent_to : reader_.position()) - freed > kMaxUnacknowledged) break;
    if (kind == v1::RecordKind::kRow) {
      const RowView row = reader_.Row();
      if (row.record.seq > durable_seq_) {
        const uint32_t shape = row.record.shape;
        const bool known = shape == 0 || (shape < shape_sent_.size() && shape_sent_[shape]);
        if (!known && !encoder_.empty()) break;
        if (!known) {
          DefineShape(shape, message);
          return true;
        }
        if (!encoder_.Add(row, ticks)) break;
        progress_.OnRow(row.record.step, row.commits());
      } else {
        const uint64_t end = reader_.position() + row.record.header.bytes;
        sent_.push_back({.end = end, .seq = row.record.seq, .item = 0});
      }
      read_seq_ = std::max(read_seq_, row.record.seq);
      passed_seq_ = row.record.seq;
      reader_.Skip();
      continue;
    }
    if (!encoder_.empty()) break;
    if (kind == v1::RecordKind::kShape) {
      const uint32_t shape = reader_.Shape();
      reader_.Skip();
      // A shape is durable when the row after it is. Until then, the ring keeps it.
      sent_.push_back(
          {.end = reader_.position(), .seq = passed_seq_ + 1, .item = 0, .shape = true});
      DefineShape(shape, message);
      return true;
    }
    const uint64_t item = reader_.Item().record.seq;
    if (item > durable_item_) {
      if (AwaitsRingBefore()) break;
      NextItems(urgent, message);
      return true;
    }
    reader_.Skip();
    sent_.push_back({.end = reader_.position(), .seq = 0, .item = item});
  }
  if (encoder_.empty()) {
    message->Clear();
    Free();
    return false;
  }
  batch->set_urgent(urgent);
  sent_.push_back({.end = reader_.position(), .seq = read_seq_, .item = 0});
  return true;
}

bool StreamProtocol::AwaitsRingBefore() {
  if (ring_->before != nullptr && (ring_->before->durable_items.load() >= ring_->items_before ||
                                   ring_->before->given_up.load())) {
    ring_->before.reset();
  }
  return ring_->before != nullptr;
}

// The items up to the next other record.
void StreamProtocol::NextItems(bool urgent, v1::ClientMessage* message) {
  const TickReader ticks(*header_);
  v1::Items* const items = message->mutable_items();
  size_t bytes = 0;
  v1::RecordKind kind;
  while (reader_.Peek(&kind) && kind == v1::RecordKind::kItem) {
    const ItemView view = reader_.Item();
    if (bytes > 0 && bytes + view.content.size() > kMaxItemBytes) break;
    v1::Item* const item = items->add_item();
    item->ParseFromArray(view.content.data(), static_cast<int>(view.content.size()));
    item->set_seq(view.record.seq);
    item->set_after_row(view.record.after_row);
    item->set_time_us(ticks.UnixMicros(view.record.ticks));
    bytes += view.content.size() + sizeof view.record;
    read_item_ = std::max(read_item_, view.record.seq);
    reader_.Skip();
    sent_.push_back({.end = reader_.position(), .seq = 0, .item = view.record.seq});
  }
  items->set_urgent(urgent);
}

void StreamProtocol::DefineShape(uint32_t shape, v1::ClientMessage* message) {
  if (shape_sent_.size() <= shape) shape_sent_.resize(shape + 1);
  shape_sent_[shape] = true;
  v1::DefineShape* const definition = message->mutable_shape();
  definition->Clear();
  definition->set_id(shape);
  for (const std::string& key : reader_.Keys(shape)) definition->add_keys(key);
}

bool StreamProtocol::NextFinish(Time now, v1::FinishRequest* request) {
  if (!attached_ || done() || now < finish_not_before_) return false;
  // The order matters: once the ring is closing, nothing more is written, so the head that is read
  // after that is the last one.
  if (!ring_->closing.load(std::memory_order_acquire)) return false;
  if (!std::exchange(saw_closing_, true) &&
      header_->finished.load(std::memory_order_relaxed) == v1::kFinishedByDestructor) {
    finish_not_before_ = now + kLastMoments;
    return false;
  }
  if (reader_.position() != ring_->head() || !AllDurable()) return false;
  *request->mutable_stream() = ring_->spool->hello().stream();
  request->set_exit_code(header_->exit_code.load(std::memory_order_relaxed));
  *request->mutable_losses() = CurrentLosses();
  // A Log() that never continues may have counted a row without publishing it.
  request->set_last_seq(ring_->cut_off.load(std::memory_order_relaxed)
                            ? read_seq_
                            : header_->rows.load(std::memory_order_relaxed));
  request->set_last_item(read_item_);
  return true;
}

void StreamProtocol::OnFinish(Time now, absl::StatusCode answer) {
  if (answer != absl::StatusCode::kOk) {
    finish_not_before_ = now + kFinishRetry;
    return;
  }
  ring_->spool->Unlink();
  ring_->finish_durable.store(true, std::memory_order_release);
}

void StreamProtocol::Free() {
  uint64_t tail = header_->tail.load(std::memory_order_relaxed);
  while (!sent_.empty()) {
    const Sent& oldest = sent_.front();
    if (oldest.seq > durable_seq_ || oldest.item > durable_item_) break;
    tail = oldest.end;
    if (!oldest.shape) freed_seq_ = std::max(freed_seq_, oldest.seq);
    freed_item_ = std::max(freed_item_, oldest.item);
    sent_.pop_front();
  }
  header_->tail.store(tail, std::memory_order_release);
  ring_->durable_rows.store(std::min(durable_seq_, read_seq_), std::memory_order_relaxed);
  ring_->durable_items.store(std::min(durable_item_, read_item_), std::memory_order_relaxed);
  // A shape that waits for its row must not delay a Flush().
  ring_->durable_end.store(AllDurable() ? reader_.position() : tail, std::memory_order_release);
}

v1::Losses StreamProtocol::CurrentLosses() const {
  v1::Losses losses;
  for (const LossReason& reason : kLossReasons) {
    (losses.*reason.report)((header_->*reason.in_ring).load(std::memory_order_relaxed));
  }
  losses.set_items(header_->lost_items.load(std::memory_order_relaxed));
  losses.set_values(header_->lost_values.load(std::memory_order_relaxed));
  return losses;
}

}  // namespace ranklog::internal
