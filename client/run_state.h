// What stands behind a Run: its settings, its open step, and a ring for each thread that logs.
//
// A forked child inherits this object; at its first call it forgets its parent's rings and makes
// its own.

#ifndef CLIENT_RUN_STATE_H_
#define CLIENT_RUN_STATE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/process.h"
#include "client/ring.h"
#include "client/stderr_lines.h"
#include "client/steps.h"
#include "client/voice.h"
#include "ranklog/run.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// Which run's ring the current thread used last. Initial-exec: a plain load, no call, in a shared
// library too.
struct ThreadCache {
  uint64_t token = 0;  // RunState::token_; 0: none
  RingWriter* writer = nullptr;
};
extern constinit thread_local ThreadCache thread_cache __attribute__((tls_model("initial-exec")));

class RunState : public std::enable_shared_from_this<RunState> {
 public:
  // Never null. Settings that are not valid are repaired, and the user is told. No memory for a
  // ring gives a run that takes no rows.
  static std::shared_ptr<RunState> Create(Settings settings);

  // Takes one row, by `write(writer, step)`. `step` may be null: the open one.
  template <typename WriteFn>
  bool LogRow(const int64_t* step, WriteFn&& write) noexcept;

  bool Control(v1::Update& update) ABSL_LOCKS_EXCLUDED(StateMutex());
  FlushResult Flush(std::chrono::milliseconds timeout) ABSL_LOCKS_EXCLUDED(StateMutex());
  // `by_destructor`: the program said no exit code; that of the process, if it ends soon, counts.
  FlushResult Finish(int exit_code, std::chrono::milliseconds timeout, bool by_destructor = false)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // For exit(), which destroys no Run that lives in a function: waits as Finish() does, where the
  // run's end is to wait for its delivery.
  void FinishAtExit(int exit_code) ABSL_LOCKS_EXCLUDED(StateMutex());
  Stats GetStats() const ABSL_LOCKS_EXCLUDED(StateMutex());

  const Settings& settings() const { return settings_; }
  const std::map<std::string, std::string>& job_variables() const { return job_variables_; }
  int64_t open_step() const { return steps_->open(); }
  void SetLastError(std::string error) ABSL_LOCKS_EXCLUDED(StateMutex());
  // Why no daemon takes the rows; empty when one does.
  void SetConnectionError(std::string error) ABSL_LOCKS_EXCLUDED(StateMutex());

  // For the sender's thread. A message of the daemon for one of the run's streams.
  void OnServerMessage(const v1::ServerMessage& message) ABSL_LOCKS_EXCLUDED(StateMutex());
  // The end of the run waits until the tracker has all of it.
  bool AwaitsDelivery() const { return delivery_.load() == Delivery::kAwaited && leaves_.load(); }
  // The daemon cannot tell any more.
  void StopAwaitingDelivery() { delivery_.store(Delivery::kNotAwaited); }
  // Tells the user what is new. True: there will be nothing more. `last`: this is the last time,
  // the process ends.
  bool Speak(std::chrono::steady_clock::time_point now, bool last)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // At the exit of the process, what the program's on_message uses may be gone already.
  void LeaveProgramAlone() {
    if (settings_.on_message) speaks_.store(false, std::memory_order_release);
  }

  // The calling thread ends: another one may have its ring.
  void ReturnRing(std::shared_ptr<Ring> ring) ABSL_LOCKS_EXCLUDED(StateMutex());

 private:
  explicit RunState(Settings settings);

  RingWriter* FindWriter() ABSL_LOCKS_EXCLUDED(StateMutex());
  void UseRing(const std::shared_ptr<Ring>& ring);
  // Each gives this thread, whose ring is that of `writer`, another one: in which the record fits
  // that was too large; or which has no row above `step`, as this thread has none. False: there is
  // none to be had, or the thread has a row above `step` itself.
  bool TakeLargerRing(const RingWriter& writer) ABSL_LOCKS_EXCLUDED(StateMutex());
  bool TakeRingFrom(int64_t step, const RingWriter& writer) ABSL_LOCKS_EXCLUDED(StateMutex());
  bool TakeOtherRing(const RingWriter& writer, size_t record_bytes, int64_t step)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // Each null if there is no ring to be had, or the run is closed: a ring that was made while
  // Finish() ran is either among those that Finish() closes, or is removed unused.
  // A ring that takes a record of `record_bytes` (0: as large as rings are), and a row at `step`.
  std::shared_ptr<Ring> AcquireRing(size_t record_bytes, int64_t step)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  std::shared_ptr<Ring> MakeRing(uint32_t thread, size_t record_bytes)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  std::vector<std::shared_ptr<Ring>> Rings() ABSL_LOCKS_EXCLUDED(StateMutex());
  // Ends the stream of the ring that has been idle for longest, and drops the rings of which the
  // daemon has it all. The process's first ring stays: its stream tells how the process and the
  // delivery of the run end.
  void RetireOldestIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  void ForgetParent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // This process's rows are the run's, so that it is the one to wait for their delivery.
  bool HasRunsRows() const;
  // Since when the run's end is waited for: from now on, or since another Finish() began that is
  // not over.
  std::chrono::steady_clock::time_point Close(int exit_code, bool by_destructor)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  bool CloseRing(Ring* ring, std::chrono::steady_clock::time_point deadline);
  Outcome WriteControl(RingWriter* writer, std::string_view bytes);
  template <typename WriteFn>
  [[gnu::noinline]] bool LogAgain(const int64_t* step, WriteFn& write) noexcept {
    return LogRow(step, write);
  }
  bool RefusedWithoutRing() noexcept;
  bool Refused(RingWriter* writer, Outcome outcome, std::string_view reason = "") noexcept;
  void StartVoice(std::vector<std::string> errors, std::vector<std::string> rank_errors)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  Voice::Facts LookAround() ABSL_LOCKS_EXCLUDED(StateMutex());
  std::string Refusal(uint64_t ring_full) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // How long the daemon has taken none of the rows that wait for it.
  std::chrono::steady_clock::duration Stalled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // Why the last of `refused` rows, of which the spool had no room for, found it full.
  std::string WhyFull(uint64_t refused) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  std::string LastError(uint64_t ring_full) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());

  const uint64_t token_;  // of this run alone
  std::unique_ptr<SharedSteps> steps_;
  std::atomic<bool> closed_ = false;  // set under StateMutex()
  std::atomic<Outcome> last_refusal_ = Outcome::kTaken;
  bool usable_ = false;  // set by Create()
  Settings settings_;
  std::map<std::string, std::string> job_variables_;
  std::string settings_error_;  // what was wrong with them before Create() repaired them
  v1::Hello hello_;             // what the Hellos of its rings have in common

  // Of the sender's thread; a forked child leaves its parent's alone.
  std::unique_ptr<Voice> voice_;
  StderrLines lines_;
  std::chrono::steady_clock::time_point next_look_;
  bool only_mistakes_ = false;         // nothing else is said of this rank
  bool heard_ = false;                 // something from the daemon since the last look
  std::atomic<bool> speaks_ = false;   // the sender will say the run's last line
  std::atomic<bool> spooled_ = false;  // Finish() has given up to wait

  enum class Delivery { kNotAwaited, kAwaited, kDone };
  std::atomic<Delivery> delivery_ = Delivery::kNotAwaited;
  std::atomic<bool> leaves_ = false;  // the run goes to a tracker
  bool is_forked_ = false;            // of a child: the run is its parent's

  // Rows refused before they came to a ring.
  std::atomic<uint64_t> lost_invalid_ = 0;
  std::atomic<uint64_t> lost_ring_full_ = 0;
  std::atomic<uint64_t> lost_after_finish_ = 0;

  uint64_t generation_ ABSL_GUARDED_BY(StateMutex());
  std::vector<std::shared_ptr<Ring>> rings_ ABSL_GUARDED_BY(StateMutex());
  std::vector<std::shared_ptr<Ring>> idle_rings_
      ABSL_GUARDED_BY(StateMutex());             // whose threads ended
  Stats dropped_ ABSL_GUARDED_BY(StateMutex());  // of rings that are no longer there
  uint32_t next_thread_ ABSL_GUARDED_BY(StateMutex()) = 0;
  std::chrono::steady_clock::time_point no_ring_before_ ABSL_GUARDED_BY(StateMutex());
  std::chrono::steady_clock::time_point no_larger_ring_before_ ABSL_GUARDED_BY(StateMutex());
  std::string last_error_ ABSL_GUARDED_BY(StateMutex());
  std::string invalid_ ABSL_GUARDED_BY(StateMutex());  // what was wrong with the last such row
  std::string connection_error_ ABSL_GUARDED_BY(StateMutex());
  std::string spool_notice_ ABSL_GUARDED_BY(StateMutex());  // of the first ring that had one
  mutable std::chrono::steady_clock::time_point full_by_outage_until_ ABSL_GUARDED_BY(StateMutex());
  mutable std::string why_full_ ABSL_GUARDED_BY(StateMutex());
  mutable uint64_t why_full_rows_ ABSL_GUARDED_BY(StateMutex()) = 0;  // that was said of so many
  std::string daemon_error_ ABSL_GUARDED_BY(StateMutex());            // what the daemon tells of
  std::string run_id_ ABSL_GUARDED_BY(StateMutex());  // by the daemon's word; empty: not yet
  int exit_code_ ABSL_GUARDED_BY(StateMutex()) = 0;   // of the first Finish()
  std::chrono::steady_clock::time_point closed_at_ ABSL_GUARDED_BY(StateMutex());
  bool by_destructor_ ABSL_GUARDED_BY(StateMutex()) = false;  // the first Finish() was
};

// Lets the times of rows follow the clock as it is now. For the one thread that writes
// calibrations.
void CalibrateClocks(const std::vector<v1::SpoolHeader*>& rings) ABSL_LOCKS_EXCLUDED(StateMutex());

// What a forked child does with the rings that its one thread inherited: nothing.
void ForgetThreadRings();

// A thread's call that writes to its ring; RunState::Close() waits for its end.
class WriterCall {
 public:
  // Whether the thread is in such a call already, which a signal handler interrupts. A second one
  // would write into the half of a record.
  static bool IsInterrupted(const RingWriter& writer) {
    return writer.busy.load(std::memory_order_relaxed);
  }

  // Not while another one is.
  explicit WriterCall(RingWriter* writer) : writer_(writer) {
    writer_->busy.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // see RunState::Close()
  }
  ~WriterCall() { writer_->busy.store(false, std::memory_order_release); }
  WriterCall(const WriterCall&) = delete;
  WriterCall& operator=(const WriterCall&) = delete;

 private:
  RingWriter* const writer_;
};

template <typename WriteFn>
bool RunState::LogRow(const int64_t* step, WriteFn&& write) noexcept {
  try {
    RingWriter* const writer = thread_cache.token == token_ ? thread_cache.writer : FindWriter();
    if (writer == nullptr) return RefusedWithoutRing();
    if (WriterCall::IsInterrupted(*writer)) [[unlikely]] {
      return Refused(writer, Outcome::kInterrupting);
    }
    const WriterCall call(writer);
    if (closed_.load(std::memory_order_relaxed)) return Refused(writer, Outcome::kAfterFinish);
    if (step != nullptr && *step > kMaxStep) {
      return Refused(writer, Outcome::kInvalid, "a step is above 2^53");
    }
    Outcome outcome;
    try {
      outcome =
          write(*writer, step == nullptr ? RowStep::Open(steps_.get())
                                         : RowStep::Given(steps_.get(), writer->steps_word, *step));
    } catch (const std::bad_alloc&) {
      outcome = Outcome::kRingFull;
    }
    if (outcome == Outcome::kTaken) [[likely]] {
      return true;
    }
    if (outcome == Outcome::kTooLarge && TakeLargerRing(*writer)) return LogAgain(step, write);
    if (outcome == Outcome::kStepBehind && TakeRingFrom(*step, *writer)) {
      return LogAgain(step, write);
    }
    return Refused(writer, outcome, writer->reason());
  } catch (...) {  // no memory even for the slow path
    lost_ring_full_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
}

}  // namespace ranklog::internal

#endif  // CLIENT_RUN_STATE_H_
