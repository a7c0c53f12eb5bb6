#include "service/ingest/server/attach_session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "service/base/fault_point.h"
#include "service/base/status_macros.h"
#include "service/ingest/ring/convert.h"

namespace ranklog::ingest {
namespace {

// Memory of a queued write, without its message; approximate.
constexpr size_t kWriteOverhead = 512;

std::atomic<uint64_t>& RefusalCounter(IngestCounters& counters, const absl::Status& why,
                                      bool other_version, bool attached) {
  if (other_version) return counters.refused_versions;
  if (!absl::IsResourceExhausted(why)) return counters.refused_messages;
  return attached ? counters.refused_shapes : counters.refused_streams;
}

}  // namespace

std::shared_ptr<AttachSession> AttachSession::Start(const IngestContext* context,
                                                    std::shared_ptr<const Peer> peer, Call* call) {
  std::shared_ptr<AttachSession> session(new AttachSession(context, std::move(peer), call));
  call->Read();
  return session;
}

void AttachSession::OnMessage(const v1::ClientMessage& message) {
  // Read now: once a Hello is handled, its answer may start the next read, which overwrites
  // `message`.
  const bool hello = message.has_hello();
  const absl::Status handled = Handle(message);
  absl::MutexLock lock(&mutex_);
  if (!handled.ok()) {
    Refuse(handled);
    return;
  }
  // After Hello, the next read waits for the answer; Attached() starts that read. Later messages do
  // not wait for their answers.
  if (hello) return;
  paused_ = context_.store->full() && unanswered_ > 0;
  if (paused_) ++context_.counters->paused_streams;
  if (!paused_) ContinueReading();
}

void AttachSession::OnNoMoreMessages() {
  absl::MutexLock lock(&mutex_);
  peer_done_ = true;
  if (unanswered_ == 0 && !writing_) Close(absl::OkStatus());
}

void AttachSession::OnWritten(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) {
    peer_done_ = true;
    if (unanswered_ == 0) Close(absl::OkStatus());
    return;
  }
  ContinueWriting();
}

void AttachSession::OnDone() {
  uint64_t attachment = 0;
  uint64_t listener = 0;
  {
    absl::MutexLock lock(&mutex_);
    done_ = true;
    attachment = attachment_;
    listener = listener_;
  }
  if (listener != 0) context_.notices->RemoveListener(listener);
  if (attachment != 0) context_.registry->Detach(key_, attachment);
}

absl::Status AttachSession::Handle(const v1::ClientMessage& message) {
  if (message.has_hello() == has_hello_) {
    return absl::FailedPreconditionError("a stream must begin with exactly one Hello");
  }
  switch (message.message_case()) {
    case v1::ClientMessage::kHello:
      has_hello_ = true;
      return HandleHello(message.hello());
    case v1::ClientMessage::kShape:
      return HandleShape(message.shape());
    case v1::ClientMessage::kBatch:
      return HandleBatch(message.batch());
    case v1::ClientMessage::kItems:
      return HandleItems(message.items());
    case v1::ClientMessage::kProgress:
      return HandleProgress(message.progress());
    case v1::ClientMessage::kLosses:
      return HandleLosses(message.losses());
    default:
      return absl::OkStatus();  // from a newer client, which does not depend on it
  }
}

absl::Status AttachSession::HandleShape(const v1::DefineShape& shape) {
  RETURN_IF_ERROR(shapes_.Add(shape.id(), shape.keys()));
  std::vector<std::string> keys(shape.keys().begin(), shape.keys().end());
  Submit([this, id = shape.id(), keys = std::move(keys)](
             storage::Store& store) { return store.DefineShape(stream_, id, keys); },
         nullptr, shape.ByteSizeLong(), /*urgent=*/false);
  return absl::OkStatus();
}

absl::Status AttachSession::HandleBatch(const v1::Batch& message) {
  ASSIGN_OR_RETURN(model::Batch batch, ToBatch(message));
  FaultPoint("receive");
  const uint64_t rows = batch.rows();
  auto durable = std::make_shared<uint64_t>(0);  // written by the first lambda, read by the second
  Submit(
      [this, batch = std::move(batch), durable](storage::Store& store) {
        ASSIGN_OR_RETURN(*durable, store.Append(stream_, batch));
        return absl::OkStatus();
      },
      [this, rows, durable] {
        ++context_.counters->batches;
        context_.counters->rows += rows;
        context_.registry->SetDurable(key_, *durable, /*durable_item=*/0);
        absl::MutexLock lock(&mutex_);
        outgoing_.SetDurable(*durable, /*item=*/0);
        ContinueWriting();
      },
      message.ByteSizeLong(), message.urgent());
  return absl::OkStatus();
}

absl::Status AttachSession::HandleItems(const v1::Items& message) {
  std::vector<v1::Item> received = {message.item().begin(), message.item().end()};
  std::vector<std::string> files = ReadContent(context_.content, &received);
  size_t bytes = 0;
  std::vector<model::Item> items;
  for (const v1::Item& item : received) {
    bytes += item.ByteSizeLong();
    items.push_back(ToItemOrUnreadable(item));
  }
  const auto unreadable = std::count_if(items.begin(), items.end(), [](const auto& item) {
    return item.kind == model::Item::Kind::kUnreadable;
  });
  context_.counters->unreadable_items += static_cast<uint64_t>(unreadable);
  auto durable = std::make_shared<uint64_t>(0);  // written by the first lambda, read by the second
  Submit(
      [this, items = std::move(items), durable](storage::Store& store) {
        ASSIGN_OR_RETURN(*durable, store.AppendItems(stream_, items));
        return absl::OkStatus();
      },
      [this, durable, files = std::move(files)] {
        if (!files.empty()) context_.content->Remove(files);
        context_.registry->SetDurable(key_, /*durable_seq=*/0, *durable);
        absl::MutexLock lock(&mutex_);
        outgoing_.SetDurable(/*seq=*/0, *durable);
        ContinueWriting();
      },
      bytes, message.urgent());
  return absl::OkStatus();
}

absl::Status AttachSession::HandleProgress(const v1::Progress& progress) {
  Submit([this, step = progress.passed_step()](storage::Store& store) {
    return store.SetProgress(stream_, step);
  });
  return absl::OkStatus();
}

absl::Status AttachSession::HandleLosses(const v1::Losses& losses) {
  Submit([this, losses = ToLosses(losses)](storage::Store& store) {
    return store.SetLosses(stream_, losses);
  });
  return absl::OkStatus();
}

void AttachSession::Submit(absl::AnyInvocable<absl::Status(storage::Store&)> apply,
                           absl::AnyInvocable<void()> then, size_t bytes, bool urgent) {
  {
    absl::MutexLock lock(&mutex_);
    ++unanswered_;
  }
  context_.store->Submit(
      {.apply = [self = shared_from_this(), apply = std::move(apply)](
                    storage::Store& store) mutable { return self->Apply(store, apply); },
       .done =
           [self = shared_from_this(), then = std::move(then)](absl::Status status) mutable {
             self->Answered(std::move(status), std::move(then));
           },
       .bytes = bytes + kWriteOverhead,
       .urgent = urgent});
}

// After a message that could not be stored, later messages of the stream must not be stored either.
// An acknowledgement covers all earlier messages, so the rank would discard, for example, a shape
// that the store does not have.
absl::Status AttachSession::Apply(storage::Store& store,
                                  absl::AnyInvocable<absl::Status(storage::Store&)>& apply) {
  if (broken_) return absl::AbortedError("an earlier message of this stream could not be stored");
  absl::Status applied = apply(store);
  // After these two errors, the whole commit is retried from its first write.
  broken_ = !applied.ok() && !absl::IsResourceExhausted(applied) && !absl::IsUnavailable(applied);
  return applied;
}

void AttachSession::Answered(absl::Status status, absl::AnyInvocable<void()> then) {
  broken_ |= !status.ok();
  if (absl::IsCancelled(status)) status = absl::UnavailableError(status.message());
  if (status.ok()) {
    if (then) then();
    context_.run_changed(run_);
  }
  absl::MutexLock lock(&mutex_);
  --unanswered_;
  if (!status.ok()) {
    context_.registry->EndAttaching(key_);
    if (open_ && !absl::IsUnavailable(status)) {
      // A failing disk is not the rank's fault; `store.failed_commits` counts that.
      if (!absl::IsInternal(status)) ++context_.counters->refused_messages;
      spdlog::warn("closed the stream of rank {} of {}: {}", key_.rank, key_.job_id,
                   status.ToString());
    }
    Close(status);
    return;
  }
  if (paused_ && (unanswered_ == 0 || !context_.store->full())) {
    paused_ = false;
    ContinueReading();
  }
  if (peer_done_ && unanswered_ == 0 && !writing_) Close(absl::OkStatus());
}

void AttachSession::Refuse(const absl::Status& why) {
  if (!absl::IsUnavailable(why)) {  // otherwise the rank will try again
    const bool attached = stream_ != 0;
    // Logs only the first refusal of each kind, because a client may retry forever.
    if (RefusalCounter(*context_.counters, why, other_version_, attached)++ == 0) {
      spdlog::warn(
          "refused rank {} of {}: {}; further refusals are only counted, see `ranklog status`",
          key_.rank, key_.job_id, std::string(why.message()));
    }
  }
  Close(why);
}

void AttachSession::ContinueReading() {
  if (open_ && !peer_done_) call_->Read();
}

void AttachSession::ContinueWriting() {
  if (!open_ || writing_) return;
  if (!outgoing_.Take(&message_)) {
    if (peer_done_ && unanswered_ == 0) Close(absl::OkStatus());
    return;
  }
  writing_ = true;
  call_->Write(message_);
}

void AttachSession::Close(const absl::Status& status) {
  if (!open_) return;
  open_ = false;
  call_->Finish(status);
}

}  // namespace ranklog::ingest
