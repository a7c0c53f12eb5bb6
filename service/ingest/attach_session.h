// One stream of a rank, apart from the call that carries it: hands what the rank sends to the
// store, and answers what is durable.

#ifndef SERVICE_INGEST_ATTACH_SESSION_H_
#define SERVICE_INGEST_ATTACH_SESSION_H_

#include <atomic>
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
#include "service/ingest/shape_bounds.h"

namespace ranklog::ingest {

// The call tells it what came, on any thread, one thing at a time for each direction; the store
// loop answers on its own. The mutex guards what both touch.
class AttachSession final : public std::enable_shared_from_this<AttachSession> {
 public:
  // What carries the messages. Its functions start something and return: what comes of it is told
  // later, never from within. None is called after Finish().
  class Call {
   public:
    virtual ~Call() = default;
    virtual void Read() = 0;  // one message; then OnMessage() or OnNoMoreMessages()
    // One at a time; then OnWritten(). `message` stays as it is until then.
    virtual void Write(const v1::ServerMessage& message) = 0;
    virtual void Finish(const absl::Status& status) = 0;  // then OnDone(), once all else was told
  };

  // Starts to read. `context` outlives the session; `call` lives until OnDone(). `peer` is null if
  // nobody knows who calls.
  static std::shared_ptr<AttachSession> Start(const IngestContext* context,
                                              std::shared_ptr<const Peer> peer, Call* call);

  void OnMessage(const v1::ClientMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Behind OnNoMoreMessages(), where gRPC has ended the call for it.
  void OnMessageTooLarge() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnNoMoreMessages() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWritten(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  AttachSession(const IngestContext* context, std::shared_ptr<const Peer> peer, Call* call)
      : context_(*context), peer_(std::move(peer)), call_(call) {}

  // kUnavailable while a program that this process ran before has not been ended: its rows come
  // first.
  absl::Status CheckFormerProgram(const v1::Hello& hello) const;
  absl::Status RememberDirOf(const RingFile* ring) const;
  // Each submits a write for the message just read, or says what is wrong with it.
  absl::Status HandleHello(const v1::Hello& hello);
  absl::Status HandleShape(const v1::DefineShape& shape);
  absl::Status HandleBatch(const v1::Batch& batch);
  absl::Status HandleProgress(const v1::Progress& progress);
  absl::Status HandleLosses(const v1::Losses& losses);
  absl::Status Handle(const v1::ClientMessage& message);

  void SubmitAttach(model::Session session, std::shared_ptr<const RingFile> ring);
  void Submit(absl::AnyInvocable<absl::Status(storage::Store&)> apply,
              absl::AnyInvocable<void()> then, size_t bytes, bool urgent)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Apply(storage::Store& store,
                     absl::AnyInvocable<absl::Status(storage::Store&)>& apply);
  void Answered(absl::Status status, absl::AnyInvocable<void()> then) ABSL_LOCKS_EXCLUDED(mutex_);
  void Attached(const model::Stream& stream, std::shared_ptr<const RingFile> ring,
                const std::vector<std::string>& destinations) ABSL_LOCKS_EXCLUDED(mutex_);
  // The board calls this.
  void OnNotice(const v1::Notice& notice) ABSL_LOCKS_EXCLUDED(mutex_);
  void HearNotices() ABSL_LOCKS_EXCLUDED(mutex_);
  void Refuse(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(std::atomic<uint64_t>& counter, const absl::Status& why);
  void ReadOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const IngestContext& context_;
  const std::shared_ptr<const Peer> peer_;  // shared with the registry
  Call* const call_;                        // not after Finish()
  // Of the reading side only.
  bool greeted_ = false;        // Hello came
  bool other_version_ = false;  // of another protocol
  ShapeBounds shapes_;
  // Written once, on the store loop's thread, before the first message after Hello is read.
  int64_t stream_ = 0;
  int64_t run_ = 0;
  model::StreamKey key_;
  bool broken_ = false;  // a write failed; of the store loop's thread

  absl::Mutex mutex_;
  v1::ServerMessage outgoing_ ABSL_GUARDED_BY(mutex_);  // of the write under way
  bool open_ ABSL_GUARDED_BY(mutex_) = true;            // Finish() was not called
  bool peer_done_ ABSL_GUARDED_BY(mutex_) = false;      // will send no more
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;  // writes that the store has not answered
  bool reply_due_ ABSL_GUARDED_BY(mutex_) = false;
  v1::HelloReply reply_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Notice> notices_ ABSL_GUARDED_BY(mutex_);  // to be written
  uint64_t durable_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;        // OnDone() was called
  uint64_t attachment_ ABSL_GUARDED_BY(mutex_) = 0;  // of the registry; 0: not attached
  uint64_t listener_ ABSL_GUARDED_BY(mutex_) = 0;    // of the notice board; 0: none
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ATTACH_SESSION_H_
