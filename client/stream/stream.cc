#include "client/stream/stream.h"

#include <utility>

namespace ranklog::internal {
namespace {

constexpr std::chrono::seconds kFinishTimeout{30};

std::string Describe(const char* what, const grpc::Status& status) {
  return std::string(what) + ": " + status.error_message();
}

// The error comes from the connection, not from the daemon.
bool IsLost(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

// Also UNAVAILABLE may come from the daemon, whose disk is full.
bool IsAnswer(const grpc::Status& status) {
  return status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
         status.error_code() != grpc::StatusCode::CANCELLED;
}

// Both enumerations use the same numbers.
absl::StatusCode CodeOf(const grpc::Status& status) {
  return static_cast<absl::StatusCode>(status.error_code());
}

}  // namespace

RingStream::RingStream(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring)
    : run_(std::move(run)), ring_(std::move(ring)), protocol_(ring_.get()) {
  for (int i = 0; i < kOperations; ++i) tags_[i] = {this, i};
}

CallTag* RingStream::Tag(Operation operation) {
  ++outstanding_;
  return &tags_[operation];
}

void RingStream::Attach(Connection* connection,
                        std::function<void(const v1::HelloReply&)> attached) {
  connection_ = connection;
  on_attached_ = std::move(attached);
  health_ = Health::kGood;
  cancelled_ = writing_ = received_message_ = false;
  attach_time_ = heard_ = std::chrono::steady_clock::now();
  asked_ = Time::max();
  protocol_.Begin();

  call_ = std::make_unique<Call>();
  call_->stream = connection->stub()->PrepareAsyncAttach(&call_->context, connection->queue());
  writing_ = true;
  call_->stream->StartCall(Tag(kStart));
}

// One stream of the run is enough.
bool RingStream::AwaitsDelivery() const {
  return run_->AwaitsDelivery() && ring_->spool->hello().identity().thread() == 0;
}

void RingStream::Cancel() {
  cancelled_ = true;
  if (call_ != nullptr) call_->context.TryCancel();
  if (finish_ != nullptr) finish_->context.TryCancel();
  protocol_.End();
}

void RingStream::Detach() {
  // A stream that has ended does not attach again.
  if (finished() && AwaitsDelivery()) run_->StopAwaitingDelivery();
  call_.reset();
  finish_.reset();
  connection_ = nullptr;
  writing_ = false;
  protocol_.End();
  ring_->unanswered_since.store(Time::duration(), std::memory_order_relaxed);
}

void RingStream::Fail(Health health, const std::string& error) {
  if (health_ != Health::kGood) return;
  health_ = health;
  error_ = error;
  protocol_.End();
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
      writing_ = false;  // if it failed, the pending read fails too, with the reason
      break;
    case kRead:
      if (ok) {
        received_message_ = true;
        Hear();
        run_->OnServerMessage(call_->incoming);
        protocol_.OnMessage(call_->incoming);
        if (call_->incoming.has_hello()) on_attached_(call_->incoming.hello());
        call_->stream->Read(&call_->incoming, Tag(kRead));
        return;
      }
      break;
    case kEnd: {
      const grpc::Status& status = call_->status;
      Fail(status.ok() || IsLost(status) ? Health::kLost : Health::kRefused,
           Describe("the daemon ended the stream", status));
      return;
    }
    case kFinish:
      return OnFinish();
    default:
      return;
  }
  if (!ok && (operation == kStart || operation == kRead)) {
    protocol_.End();
    call_->stream->Finish(&call_->status, Tag(kEnd));
  }
}

void RingStream::Hear() {
  heard_ = std::chrono::steady_clock::now();
  asked_ = Time::max();
}

void RingStream::Write() {
  writing_ = true;
  call_->stream->Write(message_, Tag(kWrite));
}

void RingStream::WriteHello() {
  *message_.mutable_hello() = protocol_.Hello();
  AddCredentials(*run_, message_.mutable_hello());
  Write();
  message_.Clear();  // keeps no credentials
}

// A daemon that hangs keeps its connection, so progress is measured by acknowledgements.
void RingStream::NoteProgress(Time now) {
  const uint64_t durable_end = ring_->durable_end.load(std::memory_order_relaxed);
  if (!protocol_.AwaitsAck()) {
    const bool attaches = call_ != nullptr && !attached() && !received_message_ && !done() &&
                          ring_->durable_end.load(std::memory_order_relaxed) != ring_->head();
    ring_->unanswered_since.store(attaches ? attach_time_.time_since_epoch() : Time::duration(),
                                  std::memory_order_relaxed);
  } else if (durable_end != durable_end_ || ring_->unanswered_since.load() == Time::duration()) {
    ring_->unanswered_since.store(now.time_since_epoch(), std::memory_order_relaxed);
  }
  durable_end_ = durable_end;
}

void RingStream::Advance(Time now, bool urgent) {
  NoteProgress(now);
  const bool asks = protocol_.AwaitsAck() || finish_ != nullptr;
  if (asks && asked_ == Time::max()) asked_ = now;
  if (!attached() || health_ != Health::kGood || finished()) return;
  if (!writing_ && protocol_.Next(now, urgent, run_->open_step(), &message_)) Write();
  if (const std::string* const damage = protocol_.Damage()) return GiveUp(*damage);
  v1::FinishRequest finish;
  if (finish_ == nullptr && protocol_.NextFinish(now, &finish)) StartFinish(finish);
}

void RingStream::GiveUp(const std::string& damage) {
  ring_->given_up.store(true, std::memory_order_release);
  run_->SetLastError(damage);
  protocol_.End();
}

void RingStream::StartFinish(const v1::FinishRequest& request) {
  finish_ = std::make_unique<FinishCall>();
  finish_->context.set_deadline(std::chrono::system_clock::now() + kFinishTimeout);
  finish_->reader =
      connection_->stub()->AsyncFinish(&finish_->context, request, connection_->queue());
  finish_->reader->Finish(&finish_->reply, &finish_->status, Tag(kFinish));
}

void RingStream::OnFinish() {
  const grpc::Status status = finish_->status;
  finish_.reset();
  if (IsAnswer(status)) Hear();
  // A lost connection is not a refusal, and a call without an answer is not one either.
  if (!status.ok() && !IsLost(status) && IsAnswer(status) && health_ == Health::kGood) {
    run_->SetLastError(Describe("the daemon refused the end of the run", status));
  }
  protocol_.OnFinish(std::chrono::steady_clock::now(), CodeOf(status));
}

}  // namespace ranklog::internal
