// One stream of a rank: reads what it sends, hands it to the store, acknowledges what is durable.

#ifndef SERVICE_INGEST_ATTACH_REACTOR_H_
#define SERVICE_INGEST_ATTACH_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "service/ingest/ingest_service.h"

namespace ranklog::ingest {

// Lives until gRPC is done with it (OnDone) and the last of its writes was answered. gRPC calls it
// on its threads, the store loop on its own; the mutex guards what both touch.
class AttachReactor final : public grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>,
                            public std::enable_shared_from_this<AttachReactor> {
 public:
  // Starts to read. `context` outlives the server.
  static AttachReactor* Start(const IngestContext* context, grpc::CallbackServerContext* call);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  AttachReactor(const IngestContext* context, std::shared_ptr<const Peer> peer)
      : context_(*context), peer_(std::move(peer)) {}

  // Each submits a write for the message just read, or says what is wrong with it.
  absl::Status HandleHello(const v1::Hello& hello);
  absl::Status HandleShape(const v1::DefineShape& shape);
  absl::Status HandleBatch(const v1::Batch& batch);
  absl::Status HandleProgress(const v1::Progress& progress);
  absl::Status HandleLosses(const v1::Losses& losses);
  absl::Status Handle(const v1::ClientMessage& message);

  void Submit(absl::AnyInvocable<absl::Status(storage::Store&)> apply,
              absl::AnyInvocable<void()> then, size_t bytes, bool urgent)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Answered(absl::Status status, absl::AnyInvocable<void()> then) ABSL_LOCKS_EXCLUDED(mutex_);
  void Attached(const model::Stream& stream, std::shared_ptr<const RingFile> ring)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ReadOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const IngestContext& context_;
  const std::shared_ptr<const Peer>
      peer_;  // shared with the registry; null: gRPC did not say who calls
  std::shared_ptr<AttachReactor> self_;  // until OnDone
  v1::ClientMessage incoming_;           // of the read under way
  v1::ServerMessage outgoing_;           // of the write under way
  bool greeted_ = false;                 // Hello came; of the reading side only
  // Written once, on the store loop's thread, before the first message after Hello is read.
  int64_t stream_ = 0;
  int64_t run_ = 0;
  model::StreamKey key_;

  absl::Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;        // Finish() of gRPC was not called
  bool peer_done_ ABSL_GUARDED_BY(mutex_) = false;  // will send no more
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;  // writes that the store has not answered
  bool reply_due_ ABSL_GUARDED_BY(mutex_) = false;
  bool want_descriptor_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t durable_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;        // OnDone() was called
  uint64_t attachment_ ABSL_GUARDED_BY(mutex_) = 0;  // of the registry; 0: not attached
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ATTACH_REACTOR_H_
