#include "client/stream.h"

#include <utility>

namespace ranklog::internal {
namespace {

// A stream keeps at most this much of its ring unacknowledged at the daemon.
constexpr uint64_t kMaxUnacknowledged = 8 << 20;
constexpr std::chrono::seconds kLossesInterval{1};
constexpr std::chrono::seconds kUnaryTimeout{30};
constexpr std::chrono::seconds kUnaryRetry{1};

std::string Describe(const char* what, const grpc::Status& status) {
  return std::string(what) + ": " + status.error_message();
}

bool Same(const v1::Losses& a, const v1::Losses& b) {
  return a.ring_full() == b.ring_full() && a.invalid() == b.invalid() &&
         a.step_behind() == b.step_behind() && a.too_large() == b.too_large() &&
         a.after_finish() == b.after_finish();
}

}  // namespace

RingStream::RingStream(std::shared_ptr<RunState> run, std::shared_ptr<Ring> ring)
    : run_(std::move(run)),
      ring_(std::move(ring)),
      header_(ring_->spool->header()),
      reader_(ring_->spool.get()) {
  for (int i = 0; i < kOperations; ++i) tags_[i] = {this, i};
}

CallTag* RingStream::Tag(Operation operation) {
  ++outstanding_;
  return &tags_[operation];
}

void RingStream::Attach(Connection* connection, std::function<void()> pass_descriptor) {
  connection_ = connection;
  pass_descriptor_ = std::move(pass_descriptor);
  health_ = Health::kGood;
  cancelled_ = attached_ = writing_ = false;
  shape_sent_.clear();
  losses_sent_.Clear();
  progress_.Reset();
  attach_time_ = std::chrono::steady_clock::now();
  // All that is not freed is read again; the daemon says how much of it to skip.
  reader_.Rewind();
  sent_.clear();
  controls_.clear();
  controls_read_ = controls_freed_;
  read_seq_ = durable_seq_;

  call_ = std::make_unique<Call>();
  call_->stream = connection->stub()->PrepareAsyncAttach(&call_->context, connection->queue());
  writing_ = true;
  call_->stream->StartCall(Tag(kStart));
}

void RingStream::Cancel() {
  cancelled_ = true;
  if (call_ != nullptr) call_->context.TryCancel();
  if (update_ != nullptr) update_->context.TryCancel();
  if (finish_ != nullptr) finish_->context.TryCancel();
  attached_ = false;
}

void RingStream::Detach() {
  call_.reset();
  update_.reset();
  finish_.reset();
  connection_ = nullptr;
  attached_ = writing_ = false;
  ring_->attached.store(false, std::memory_order_relaxed);
}

void RingStream::Fail(Health health, const std::string& error) {
  if (health_ != Health::kGood) return;
  health_ = health;
  error_ = error;
  attached_ = false;
}

void RingStream::OnDone(int operation, bool ok) {
  --outstanding_;
  if (cancelled_) return;
  switch (operation) {
    case kStart:
      writing_ = false;
      if (ok) {
        call_->stream->Read(&call_->incoming, Tag(kRead));
        WriteHello();
      }
      break;
    case kWrite:
      writing_ = false;  // if it failed, the pending read fails too, and tells why
      break;
    case kRead:
      if (ok) {
        HandleMessage();
        call_->stream->Read(&call_->incoming, Tag(kRead));
        return;
      }
      break;
    case kEnd: {
      const grpc::Status& status = call_->status;
      const bool refused = !status.ok() && status.error_code() != grpc::StatusCode::UNAVAILABLE &&
                           status.error_code() != grpc::StatusCode::CANCELLED;
      Fail(refused ? Health::kRefused : Health::kLost,
           Describe("the daemon ended the stream", status));
      return;
    }
    case kUpdate:
      return OnUpdate();
    case kFinish:
      return OnFinish();
    default:
      return;
  }
  if (!ok && (operation == kStart || operation == kRead)) {
    attached_ = false;
    call_->stream->Finish(&call_->status, Tag(kEnd));
  }
}

void RingStream::HandleMessage() {
  if (call_->incoming.has_hello()) {
    HandleReply(call_->incoming.hello());
  } else if (call_->incoming.has_ack()) {
    durable_seq_ = std::max(durable_seq_, call_->incoming.ack().durable_seq());
    Free();
  }
}

void RingStream::HandleReply(const v1::HelloReply& reply) {
  durable_seq_ = std::max(durable_seq_, reply.durable_seq());
  read_seq_ = durable_seq_;
  attached_ = true;
  ring_->attached.store(true, std::memory_order_relaxed);
  if (reply.send_descriptor()) pass_descriptor_();
  Free();
}

void RingStream::Write() {
  writing_ = true;
  call_->stream->Write(message_, Tag(kWrite));
}

void RingStream::WriteHello() {
  *message_.mutable_hello() = ring_->spool->hello();
  for (const auto& [name, value] : run_->settings().credentials) {
    (*message_.mutable_hello()->mutable_credentials())[name] = value;
  }
  Write();
  message_.Clear();  // keeps no credentials
}

void RingStream::Advance(Time now, bool urgent) {
  if (!attached_ || health_ != Health::kGood) return;
  urgent_ = urgent;
  if (!writing_) WriteNext(now, urgent);
  if (update_ == nullptr && !controls_.empty() && now >= unary_not_before_) StartUpdate(now);
  const bool all_sent = reader_.position() == ring_->head() && RowsDurable() && controls_.empty();
  if (ring_->closing.load(std::memory_order_acquire) && all_sent && finish_ == nullptr &&
      !ring_->finish_durable.load(std::memory_order_relaxed) && now >= unary_not_before_) {
    StartFinish(now);
  }
}

// Writes one message, the most pressing first. False: there is nothing to write.
bool RingStream::WriteNext(Time now, bool urgent) {
  if (WriteRows(urgent)) return true;
  const v1::Losses losses = CurrentLosses();
  if (now - losses_time_ >= kLossesInterval && !Same(losses, losses_sent_)) {
    losses_time_ = now;
    losses_sent_ = losses;
    *message_.mutable_losses() = losses;
    Write();
    return true;
  }
  if (reader_.position() != ring_->head()) return false;
  if (const auto passed = progress_.Next(now, reader_.position(), run_->open_step())) {
    message_.mutable_progress()->set_passed_step(*passed);
    Write();
    return true;
  }
  return false;
}

bool RingStream::WriteRows(bool urgent) {
  const TickReader ticks(*header_);
  const uint64_t freed = header_->tail.load(std::memory_order_relaxed);
  v1::Batch* const batch = message_.mutable_batch();
  builder_.Start(batch);
  v1::RecordKind kind;
  while (reader_.Peek(&kind)) {
    const uint64_t waiting = reader_.position() - freed;
    if (waiting > kMaxUnacknowledged) break;
    if (kind == v1::RecordKind::kRow) {
      const RowView row = reader_.Row();
      if (row.record.seq > durable_seq_) {
        const uint32_t shape = row.record.shape;
        const bool known = shape == 0 || (shape < shape_sent_.size() && shape_sent_[shape]);
        if (!known && !builder_.empty()) break;
        if (!known) {
          WriteShape(shape);
          return true;
        }
        if (!builder_.Add(row, ticks)) break;
        progress_.OnRow(row.record.step, row.commits());
      } else {
        sent_.push_back({reader_.position() + row.record.header.bytes, row.record.seq, false});
      }
      read_seq_ = std::max(read_seq_, row.record.seq);
      reader_.Skip();
      continue;
    }
    if (!builder_.empty()) break;
    if (kind == v1::RecordKind::kShape) {
      const uint32_t shape = reader_.Shape();
      reader_.Skip();
      // It is safe at the daemon when the row after it is: until then the ring keeps it.
      sent_.push_back({reader_.position(), read_seq_ + 1, false});
      WriteShape(shape);
      return true;
    }
    TakeControl();
  }
  if (builder_.empty()) {
    message_.Clear();
    Free();
    return false;
  }
  batch->set_urgent(urgent);
  sent_.push_back({reader_.position(), read_seq_, false});
  Write();
  return true;
}

void RingStream::WriteShape(uint32_t shape) {
  if (shape_sent_.size() <= shape) shape_sent_.resize(shape + 1);
  shape_sent_[shape] = true;
  v1::DefineShape* const definition = message_.mutable_shape();
  definition->Clear();
  definition->set_id(shape);
  for (const std::string& key : reader_.Keys(shape)) definition->add_keys(key);
  Write();
}

void RingStream::TakeControl() {
  const bool answered = ++controls_read_ <= controls_answered_;  // on an earlier connection
  if (!answered) controls_.emplace_back(reader_.Control());
  reader_.Skip();
  sent_.push_back({reader_.position(), 0, /*control=*/true, answered});
}

void RingStream::StartUpdate(Time now) {
  v1::UpdateRequest request;
  *request.mutable_stream() = ring_->spool->hello().stream();
  request.mutable_update()->ParseFromString(controls_.front());
  update_ = std::make_unique<Unary<v1::UpdateReply>>();
  update_->context.set_deadline(std::chrono::system_clock::now() + kUnaryTimeout);
  unary_not_before_ = now;
  update_->reader =
      connection_->stub()->AsyncUpdate(&update_->context, request, connection_->queue());
  update_->reader->Finish(&update_->reply, &update_->status, Tag(kUpdate));
}

void RingStream::OnUpdate() {
  const grpc::Status status = update_->status;
  update_.reset();
  // What the daemon cannot take must not stop the rest.
  const bool refused = status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
  if (!status.ok()) {
    if (health_ == Health::kGood && status.error_code() != grpc::StatusCode::UNAVAILABLE &&
        status.error_code() != grpc::StatusCode::CANCELLED) {
      run_->SetLastError(Describe("the daemon refused an update", status));
    }
    unary_not_before_ = std::chrono::steady_clock::now() + kUnaryRetry;
    if (!refused) return;
  }
  controls_answered_ = controls_read_ - controls_.size() + 1;
  controls_.pop_front();
  for (Sent& sent : sent_) {
    if (!sent.control || sent.answered) continue;
    sent.answered = true;
    break;
  }
  ring_->durable_controls.store(controls_answered_, std::memory_order_relaxed);
  Free();
}

void RingStream::StartFinish(Time now) {
  v1::FinishRequest request;
  *request.mutable_stream() = ring_->spool->hello().stream();
  request.set_exit_code(header_->exit_code.load(std::memory_order_relaxed));
  *request.mutable_losses() = CurrentLosses();
  request.set_last_seq(header_->rows.load(std::memory_order_relaxed));
  finish_ = std::make_unique<Unary<v1::FinishReply>>();
  finish_->context.set_deadline(std::chrono::system_clock::now() + kUnaryTimeout);
  unary_not_before_ = now;
  finish_->reader =
      connection_->stub()->AsyncFinish(&finish_->context, request, connection_->queue());
  finish_->reader->Finish(&finish_->reply, &finish_->status, Tag(kFinish));
}

void RingStream::OnFinish() {
  const grpc::Status status = finish_->status;
  finish_.reset();
  if (!status.ok()) {
    if (health_ == Health::kGood && status.error_code() != grpc::StatusCode::UNAVAILABLE &&
        status.error_code() != grpc::StatusCode::CANCELLED) {
      run_->SetLastError(Describe("the daemon refused the end of the run", status));
    }
    unary_not_before_ = std::chrono::steady_clock::now() + kUnaryRetry;
    return;
  }
  ring_->spool->Unlink();
  ring_->finish_durable.store(true, std::memory_order_release);
}

void RingStream::Free() {
  uint64_t tail = header_->tail.load(std::memory_order_relaxed);
  while (!sent_.empty()) {
    const Sent& oldest = sent_.front();
    if (oldest.control ? !oldest.answered : oldest.seq > durable_seq_) break;
    tail = oldest.end;
    if (oldest.control) ++controls_freed_;
    sent_.pop_front();
  }
  header_->tail.store(tail, std::memory_order_release);
  ring_->durable_rows.store(std::min(durable_seq_, read_seq_), std::memory_order_relaxed);
  // A shape that waits for its row does not make anybody wait.
  const bool all = RowsDurable() && controls_.empty();
  ring_->durable_end.store(all ? reader_.position() : tail, std::memory_order_release);
}

v1::Losses RingStream::CurrentLosses() const {
  v1::Losses losses;
  losses.set_ring_full(header_->lost_ring_full.load(std::memory_order_relaxed));
  losses.set_invalid(header_->lost_invalid.load(std::memory_order_relaxed));
  losses.set_step_behind(header_->lost_step_behind.load(std::memory_order_relaxed));
  losses.set_too_large(header_->lost_too_large.load(std::memory_order_relaxed));
  losses.set_after_finish(header_->lost_after_finish.load(std::memory_order_relaxed));
  return losses;
}

}  // namespace ranklog::internal
