// One stream of a rank, independent of the call that carries it. Writes the rank's messages to the
// store and acknowledges durable rows.

#ifndef SERVICE_INGEST_SERVER_ATTACH_SESSION_H_
#define SERVICE_INGEST_SERVER_ATTACH_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/ring/shape_bounds.h"
#include "service/ingest/server/outgoing_messages.h"

namespace ranklog::ingest {

// The call reports events on any thread, but only one at a time for each direction. The store loop
// answers on its own thread. The mutex guards the state that both use.
class AttachSession final : public std::enable_shared_from_this<AttachSession> {
 public:
  // Carries the messages. Each function starts an operation and returns. Its result is reported
  // later, never from within the function. No function is called after Finish().
  class Call {
   public:
    virtual ~Call() = default;
    virtual void Read() = 0;  // reads one message; then OnMessage() or OnNoMoreMessages()
    // One write at a time; then OnWritten(). `message` must not change until then.
    virtual void Write(const v1::ServerMessage& message) = 0;
    virtual void Finish(const absl::Status& status) = 0;  // then OnDone(), after all other events
  };

  // Starts reading. `context` must outlive the session; `call` must live until OnDone(). `peer` is
  // null if the peer process is unknown.
  static std::shared_ptr<AttachSession> Start(const IngestContext* context,
                                              std::shared_ptr<const Peer> peer, Call* call);

  // Events of the call; see Call.
  void OnMessage(const v1::ClientMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnNoMoreMessages() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWritten(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  AttachSession(const IngestContext* context, std::shared_ptr<const Peer> peer, Call* call)
      : context_(*context), peer_(std::move(peer)), call_(call) {}

  // Each function submits a write for the message just read, or returns why the message is invalid.
  absl::Status HandleShape(const v1::DefineShape& shape);
  absl::Status HandleBatch(const v1::Batch& batch);
  absl::Status HandleItems(const v1::Items& message);
  absl::Status HandleProgress(const v1::Progress& progress);
  absl::Status HandleLosses(const v1::Losses& losses);
  absl::Status Handle(const v1::ClientMessage& message);

  // Defined in attach_hello.cc.
  absl::Status HandleHello(const v1::Hello& hello);
  void SubmitAttach(model::Session session, std::shared_ptr<const RingFile> ring);
  void Attached(const model::Stream& stream, std::shared_ptr<const RingFile> ring,
                const std::vector<std::string>& destinations, std::vector<std::string> mistakes,
                const absl::optional<v1::Notice>& nodes) ABSL_LOCKS_EXCLUDED(mutex_);
  void SubscribeToNotices() ABSL_LOCKS_EXCLUDED(mutex_);
  // Called by the notice board.
  void OnNotice(const v1::Notice& notice) ABSL_LOCKS_EXCLUDED(mutex_);

  void Submit(absl::AnyInvocable<absl::Status(storage::Store&)> apply,
              absl::AnyInvocable<void()> then = nullptr, size_t bytes = 0, bool urgent = false)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Apply(storage::Store& store,
                     absl::AnyInvocable<absl::Status(storage::Store&)>& apply);
  void Answered(absl::Status status, absl::AnyInvocable<void()> then) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refuse(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ContinueReading() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ContinueWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const IngestContext& context_;
  const std::shared_ptr<const Peer> peer_;  // shared with the registry
  Call* const call_;                        // not used after Finish()
  // Used only by the reading side.
  bool has_hello_ = false;      // a Hello arrived
  bool other_version_ = false;  // the Hello names another protocol version
  ShapeBounds shapes_;
  // Written once, on the store loop's thread, before the first message after Hello is read.
  int64_t stream_ = 0;
  int64_t run_ = 0;
  model::StreamKey key_;
  bool broken_ = false;  // a write failed; used only on the store loop's thread

  absl::Mutex mutex_;
  OutgoingMessages outgoing_ ABSL_GUARDED_BY(mutex_);
  v1::ServerMessage message_ ABSL_GUARDED_BY(mutex_);  // buffer of the current write
  bool open_ ABSL_GUARDED_BY(mutex_) = true;           // Finish() was not called yet
  bool peer_done_ ABSL_GUARDED_BY(mutex_) = false;     // the peer will send nothing more
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;       // writes without an answer from the store
  bool done_ ABSL_GUARDED_BY(mutex_) = false;        // OnDone() was called
  uint64_t attachment_ ABSL_GUARDED_BY(mutex_) = 0;  // number in the registry; 0: not attached
  uint64_t listener_ ABSL_GUARDED_BY(mutex_) = 0;    // number at the notice board; 0: not listening
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_ATTACH_SESSION_H_
