// Sends the rows of the runs that are parts of another node's run to that node's daemon.

#ifndef SERVICE_PEER_PUSH_LOOP_H_
#define SERVICE_PEER_PUSH_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/base/host_port.h"
#include "service/base/pulse.h"
#include "service/base/steady_wait.h"
#include "service/peer/part_sender.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/store_reader.h"

namespace ranklog::peer {

// Runs one thread, which never waits for an answer: each run has at most one request under way. A
// home that does not answer costs its own runs a wait, and no other one.
class PushLoop {
 public:
  // Sends a request to `address`, and calls `done` later, on any thread.
  using Send = std::function<void(const HostPort& address, const v1::PushRequest& request,
                                  std::function<void(absl::Status, v1::PushReply)> done)>;
  struct Options {
    PartSender::Options part;
    absl::optional<HostPort> home;  // of the daemon of rank 0's node, whatever the ranks say
    int port = 0;                   // of an address of the ranks without one
    // Minimum time between two requests of a run, so that one carries the rows of all ranks.
    absl::Duration interval = absl::Milliseconds(250);
    absl::Duration first_backoff = absl::Seconds(1);
    absl::Duration max_backoff = absl::Seconds(10);
    // Runs that ended longer ago are not sent: their run at rank 0's node has ended, too.
    absl::Duration forget_after = absl::Hours(24);
    // The rows of a run have not arrived for `trouble_after`, or arrive again (`error` is empty).
    // Called on the loop's thread. Null: nobody is told.
    std::function<void(int64_t run, const std::string& home, const std::string& error)> on_trouble =
        nullptr;
    absl::Duration trouble_after = absl::Seconds(15);
    // An answer that takes longer is a trouble. Shorter than the limit of a request.
    absl::Duration slow_answer = absl::Seconds(8);
    std::function<absl::Time()> steady_clock;
    std::function<absl::Time()> wall_clock = absl::Now;
  };

  // `store` must outlive this object.
  PushLoop(pipeline::StoreLoop* store, std::unique_ptr<storage::StoreReader> reader, Send send,
           Options options);
  ~PushLoop();  // calls Stop()

  // Starts the thread, which first looks for the parts that are not sent yet.
  void Start();
  // Call it after the commit of a stream's rows, progress or end. From any thread.
  void Notify(int64_t run) ABSL_LOCKS_EXCLUDED(inbox_->mutex);
  void Stop() ABSL_LOCKS_EXCLUDED(inbox_->mutex);  // idempotent

  // One round of the thread, for tests. Returns the time until the next one.
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_, inbox_->mutex);

  // A run that is sent.
  struct Link {
    int64_t run = 0;
    std::string run_id;
    std::string home;   // HOST:PORT; empty: not known
    bool own = false;   // the home is this daemon itself
    std::string error;  // why nothing arrives there; empty: it arrives
    uint64_t waiting_rows = 0;
    bool waits = false;  // rows, or ends of streams
    bool asks = false;   // as PartSender::State::asks
    uint64_t late_rows = 0;
    absl::Time last_answer = absl::InfinitePast();    // by the wall clock
    absl::Time stuck_since = absl::InfiniteFuture();  // with an error; by the steady clock
  };
  std::vector<Link> Links() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether rows wait that can be sent now.
  bool busy() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the homes have all that the store has of the runs, and those that answer have told which
  // rows are late. A run without a known home does not count.
  bool sent() const ABSL_LOCKS_EXCLUDED(mutex_, inbox_->mutex);
  // Rows that came too late: after their step was closed, or after the end of the run of rank 0.
  uint64_t late_rows() const { return late_rows_; }
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  struct Answer {
    absl::Status status;
    v1::PushReply reply;
  };
  // Messages to this loop; shared with the answers, which may come after this object is destroyed.
  struct Inbox {
    absl::Mutex mutex;
    SteadyWait changed;
    std::set<int64_t> runs ABSL_GUARDED_BY(mutex);
    uint64_t notified ABSL_GUARDED_BY(mutex) = 0;              // calls of Notify()
    std::map<int64_t, Answer> answers ABSL_GUARDED_BY(mutex);  // by run
    // What could not be stored.
    std::vector<PartSender::Progress> unsaved ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
  };
  struct Entry {
    std::unique_ptr<PartSender> part;  // null: the run is not looked at yet
    bool not_a_part = false;
    bool due = false;
    bool stale = false;                       // notified since the store was read
    bool waits = false;                       // for an answer
    absl::Time asked = absl::InfinitePast();  // when the request was sent that has no answer
    absl::Time next = absl::InfinitePast();
    absl::Duration backoff = absl::ZeroDuration();
    bool told = false;  // of the trouble
    Link link;
  };

  void Run();
  void TakeUp();
  uint64_t TakeMessages(absl::Time now);  // Inbox::notified
  // So that `status` does not show old counts while a request is under way.
  void Read(Entry& entry);
  static void SetCounts(Entry& entry);
  void SetError(const std::string& error, Entry* entry, absl::Time now);
  void TakeAnswer(Entry& entry, const Answer& answer, absl::Time now);
  void StepRun(int64_t run, Entry& entry, absl::Time now);
  // If it fails, it is tried again.
  void Save(const std::vector<PartSender::Progress>& progress);
  absl::optional<HostPort> HomeOf(const model::Run& run) const;

  pipeline::StoreLoop* const store_;
  const std::unique_ptr<storage::StoreReader> reader_;
  const Send send_;
  const Options options_;
  const std::shared_ptr<Inbox> inbox_;
  bool taken_up_ = false;
  // Used only by the stepping thread.
  std::map<int64_t, Entry> runs_;
  std::set<int64_t> others_;  // runs that are not parts, and will not become ones
  std::atomic<uint64_t> late_rows_{0};
  std::vector<PartSender::Progress> unsaved_;
  absl::Time save_at_ = absl::InfiniteFuture();  // when `unsaved_` is not empty
  mutable absl::Mutex mutex_;
  std::vector<Link> links_ ABSL_GUARDED_BY(mutex_);
  bool all_sent_ ABSL_GUARDED_BY(mutex_) = false;   // at the last round
  uint64_t looked_at_ ABSL_GUARDED_BY(mutex_) = 0;  // Inbox::notified before it
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_PUSH_LOOP_H_
