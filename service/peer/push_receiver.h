// Takes the rows of other nodes' ranks, which their daemons send, into the run of rank 0.

#ifndef SERVICE_PEER_PUSH_RECEIVER_H_
#define SERVICE_PEER_PUSH_RECEIVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/attach.h"
#include "service/ingest/ring/shape_bounds.h"
#include "service/model/run.h"
#include "service/pipeline/store_loop.h"

namespace ranklog::peer {

// Thread-safe. Its memory of streams is a cache: the store knows what is durable, so that a daemon
// may be started again at any time, and a request may be repeated.
class PushReceiver {
 public:
  // One rank of 1,024 nodes has one to a few streams.
  static constexpr size_t kMaxStreams = 65536;
  // Streams of a request that are attached; the others are told to come again.
  static constexpr int kMaxHellos = 4096;

  struct Options {
    pipeline::StoreLoop* store = nullptr;
    ingest::Attacher* attacher = nullptr;  // used only on the store loop's thread
    // A stream of the run has new rows, or has ended. Called from any thread after a commit.
    std::function<void(int64_t run)> run_changed;
    std::function<absl::Time()> steady_clock;
    std::function<absl::Time()> wall_clock = absl::Now;
  };
  struct Counters {
    std::atomic<uint64_t> requests{0};
    std::atomic<uint64_t> rows{0};     // durable, repeated rows included
    std::atomic<uint64_t> refused{0};  // streams whose rows were malformed
  };

  explicit PushReceiver(Options options);

  // Calls `done` once everything is committed, or at once if there is nothing to store.
  void Handle(const v1::PushRequest& request, absl::AnyInvocable<void(v1::PushReply)> done)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // When the daemon that sends this stream was last heard of; the time of construction if it was
  // not since then.
  absl::Time Heard(const model::Stream& stream) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether no daemon still asks which rows of its streams that have ended are late.
  bool told() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The nodes that have sent something since the daemon's start.
  struct Node {
    std::string name;
    absl::Time heard;
    size_t streams = 0;  // that have not ended
  };
  std::vector<Node> Nodes() const ABSL_LOCKS_EXCLUDED(mutex_);
  const Counters& counters() const { return counters_; }

 private:
  struct Sender {
    std::string node;
    absl::Time heard;
  };
  struct Known {
    int64_t stream = 0;
    int64_t run = 0;
    uint64_t sender = 0;
    std::shared_ptr<ingest::ShapeBounds> shapes{};  // used with the mutex
  };
  struct Job;  // a request that is being stored

  void Attach(std::shared_ptr<Job> job, int index, const v1::PushedStream& pushed);
  void Append(std::shared_ptr<Job> job, int index, const Known& known,
              const v1::PushedStream& pushed);
  absl::Status CheckShapes(const Known& known, const v1::PushedStream& pushed)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::optional<Known> Find(const model::StreamKey& key, uint64_t sender)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Remember(const model::StreamKey& key, const Known& known) ABSL_LOCKS_EXCLUDED(mutex_);
  // The stream has ended; `open`: not all of its rows are in the run.
  void SetAsked(int64_t stream, bool open) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetSilent(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const absl::Time started_;
  Counters counters_;
  mutable absl::Mutex mutex_;
  std::map<model::StreamKey, Known> streams_ ABSL_GUARDED_BY(mutex_);  // that have not ended
  std::map<int64_t, uint64_t> sender_of_ ABSL_GUARDED_BY(mutex_);      // by the store's stream id
  std::map<uint64_t, Sender> senders_ ABSL_GUARDED_BY(mutex_);
  // Streams that have ended, and when their daemon last asked which rows are late.
  std::map<int64_t, absl::Time> asked_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // of ForgetSilent()
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_PUSH_RECEIVER_H_
