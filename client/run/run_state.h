// The state behind a Run: its settings, its open step, and a ring for each thread that logs.
//
// A forked child inherits this object. At its first call it drops its parent's rings and makes its
// own.

#ifndef CLIENT_RUN_RUN_STATE_H_
#define CLIENT_RUN_RUN_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "client/base/event.h"
#include "client/base/process.h"
#include "client/base/stderr_lines.h"
#include "client/content/staged_files.h"
#include "client/content/stager.h"
#include "client/facts/metadata.h"
#include "client/ring/ring.h"
#include "client/ring/steps.h"
#include "client/run/console_capture.h"
#include "client/run/thread_rings.h"
#include "client/run/user_messages.h"
#include "client/stream/streamed_run.h"
#include "ranklog/run.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

struct MediaFile;

class RunState final : public StreamedRun, public std::enable_shared_from_this<RunState> {
 public:
  // Never returns null. Repairs invalid settings and reports that to the user. Without memory for a
  // ring, the run accepts no rows.
  static std::shared_ptr<RunState> Create(Settings settings);

  // Hold() keeps this object alive for the program's handle to it, until Release(), which returns
  // the handle's share.
  void Hold() { held_ = shared_from_this(); }
  std::shared_ptr<RunState> Release() { return std::exchange(held_, nullptr); }

  // Logs one row by `write(writer, step)`; defined in log_row.h. If `step` is null, the row takes the open step.
  template <typename WriteFn>
  bool LogRow(const int64_t* step, WriteFn&& write) noexcept;

  // Logs one row whose values may be media. Not for signal handlers.
  bool LogMedia(std::span<const ranklog_field> row, const int64_t* step) noexcept
      ABSL_LOCKS_EXCLUDED(StateMutex());

  bool AddItem(v1::Item& item) ABSL_LOCKS_EXCLUDED(StateMutex());
  // Counts an item that was refused, and returns false.
  bool RefuseItem(std::string why) noexcept ABSL_LOCKS_EXCLUDED(StateMutex());
  // Counts an upload that was refused.
  std::shared_ptr<Upload> RefuseUpload(std::string why);
  // `item` has an artifact without its files, and with a member `entries`. `paths`: files, and
  // directories whose files are meant. `find` returns the files of one, on the thread that copies
  // them.
  std::shared_ptr<Upload> StageArtifact(v1::Item item, std::vector<std::string> paths,
                                        FindFiles find = FilesIn);
  // `item` has an artifact that the run uses. Among the uploads, so that it keeps its place.
  std::shared_ptr<Upload> StageUse(v1::Item item);
  // A file of the run. `name`: its path among the files of the run.
  std::shared_ptr<Upload> StageRunFile(const std::string& path, std::string name);
  // Defined in run_console.cc.
  bool CaptureConsole() ABSL_LOCKS_EXCLUDED(StateMutex());
  // The same at the end of the run; `live`: also now, and each time that the file has changed.
  std::shared_ptr<Upload> KeepSaving(const std::string& path, std::string name, bool live);
  // `stops`: asked without a lock, at least each 100 ms. The wait ends once it is true.
  using Stops = std::function<bool()>;
  FlushResult Flush(std::chrono::milliseconds timeout, const Stops& stops = {})
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // `by_destructor`: the program gave no exit code. If the process ends soon, its exit code is
  // used.
  FlushResult Finish(int exit_code, std::chrono::milliseconds timeout, bool by_destructor = false,
                     const Stops& stops = {}) ABSL_LOCKS_EXCLUDED(StateMutex());
  // Whether the destructor waits like Finish(). It does not wait after a Finish() in vain.
  bool DestructorWaits() const {
    return settings_.delivery_timeout.count() > 0 && !finish_timed_out_.load();
  }
  Stats GetStats() const ABSL_LOCKS_EXCLUDED(StateMutex());
  std::string Url() const ABSL_LOCKS_EXCLUDED(StateMutex());
  // Whether the daemon has reported that the run was asked to stop.
  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }
  // Empty if the run accepts no rows.
  std::string Handle() const;
  // Makes the run's metadata, once. A later call of a thread that logs writes it to the ring. For
  // the sender's thread.
  void GatherFacts() noexcept;

  const Settings& settings() const override { return settings_; }
  const std::map<std::string, std::string>& job_variables() const override {
    return job_variables_;
  }
  int64_t open_step() const override { return steps_->open(); }
  bool IsInherited() const override { return is_forked_; }
  void SetLastError(std::string error) override ABSL_LOCKS_EXCLUDED(StateMutex());
  // Records why values are left out of rows, as the last error and for the terminal.
  void AddLeftOut(const std::string& reason) ABSL_LOCKS_EXCLUDED(StateMutex());
  void SetConnectionError(std::string error) override ABSL_LOCKS_EXCLUDED(StateMutex());
  void OnServerMessage(const v1::ServerMessage& message) override ABSL_LOCKS_EXCLUDED(StateMutex());
  bool AwaitsDelivery() const override {
    return delivery_.load() == Delivery::kAwaited && has_tracker_.load();
  }
  void StopAwaitingDelivery() override { delivery_.store(Delivery::kNotAwaited); }
  bool PrintMessages(std::chrono::steady_clock::time_point now, bool last) override
      ABSL_LOCKS_EXCLUDED(StateMutex());
  void StopCallbacks() override {
    if (settings_.on_message) prints_last_line_.store(false, std::memory_order_release);
  }
  void FinishAtExit(int exit_code) override ABSL_LOCKS_EXCLUDED(StateMutex());

  // The calling thread ends; another thread may get its ring.
  void ReturnRing(std::shared_ptr<Ring> ring) ABSL_LOCKS_EXCLUDED(StateMutex());

 private:
  explicit RunState(Settings settings);

  // Joins the run that `settings_` name, if they have a handle, before anything else is read from
  // them. Appends the reason why that is impossible to `errors`.
  std::optional<v1::RunHandle> JoinByHandle(std::vector<std::string>* errors);
  // Lets the sender's thread gather the facts, unless they are not wanted.
  void BeginFacts();
  // Writes the facts to the ring, if they are due. Only for the thread that uses the ring.
  void WriteFacts(RingWriter* writer) noexcept;
  // Returns when the facts are due or written, at most at the deadline.
  void AwaitFacts(std::chrono::steady_clock::time_point deadline) noexcept;
  // Copies the files of an upload, and returns its item. Adds the names of the copies to `staged`.
  using StageFn = std::function<absl::StatusOr<v1::Item>(const v1::ContentPlace& place,
                                                         std::vector<std::string>* staged)>;
  std::shared_ptr<Upload> Stage(StageFn stage);
  void RunStage(const StageFn& stage, Upload* upload) noexcept;
  // Writes the item to the ring, or removes its copies again. `counted`: its refusal is counted.
  absl::Status TryStage(const StageFn& stage, bool* counted) noexcept;
  // Counts it, unless it is `counted`; and refuses the upload, unless an earlier copy was staged.
  void RefuseStaged(const absl::Status& status, bool counted, Upload* upload) noexcept;
  StageFn RunFileStage(std::string path, std::string name);
  // A file with a policy other than "now". Only the stager's thread changes its members.
  struct SavedFile {
    std::string path;
    std::string name;
    bool live = false;
    std::shared_ptr<Upload> upload;
    FileStamp staged{};                                  // of the last copy
    std::chrono::steady_clock::time_point not_before{};  // of the next one, except at the end
  };
  // For the stager's thread: copies the live files that have changed. False: the run has ended.
  bool StageChangedSaves() noexcept;
  void StageLastSaves() noexcept;
  // Makes the last copies, for which AwaitStaging() waits.
  void EndSaves() ABSL_LOCKS_EXCLUDED(StateMutex());
  // To call while a copy advances; false: give it up.
  std::function<bool(uint64_t copied)> Advance();
  void StagingEnds();
  absl::StatusOr<v1::ContentPlace> AwaitContentPlace(std::chrono::steady_clock::time_point deadline)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  static v1::Item RunFileItem(const std::string& path, const StagedFile& file);
  // Waits for the uploads of earlier calls, as long as their copies advance: one that does not for
  // `patience` is given up.
  void AwaitStaging(std::chrono::milliseconds patience, const Stops& stops);
  // Tells `ranklog exec`, if it started this process, to log the console to this run.
  void AnnounceToConsole();
  // The handle for the process that reads the console.
  std::string ConsoleHandle() const;
  void StopConsole() ABSL_LOCKS_EXCLUDED(StateMutex());
  // False: a row at `step` of this thread would be refused, so its media are not written.
  bool MayTakeRow(const int64_t* step) ABSL_LOCKS_EXCLUDED(StateMutex());
  // Writes the files of a medium, and returns its entry of the row. Nullopt: it is left out.
  std::optional<Value> StageMedia(const ranklog_field& field, int64_t step)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  absl::Status StageMediaFiles(const std::vector<MediaFile>& files)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // Counts values that are left out of a row.
  void LeaveOut(uint64_t values, std::string reason) ABSL_LOCKS_EXCLUDED(StateMutex());
  // The process writes to the run of another process: its end says nothing about the run.
  bool IsGuest() const { return is_forked_ || is_attached_; }

  RingWriter* FindWriter() ABSL_LOCKS_EXCLUDED(StateMutex());
  void UseRing(const std::shared_ptr<Ring>& ring);
  // Each gives this thread a ring other than that of `writer`. TakeLargerRing() takes one that fits
  // the record that was too large. TakeRingFrom() takes one without a row above `step`. False: no
  // such ring is available, or the thread itself has a row above `step`.
  bool TakeLargerRing(const RingWriter& writer) ABSL_LOCKS_EXCLUDED(StateMutex());
  bool TakeRingFrom(int64_t step, const RingWriter& writer) ABSL_LOCKS_EXCLUDED(StateMutex());
  bool TakeOtherRing(const RingWriter& writer, size_t record_bytes, int64_t step)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // The same for an item, which may be larger than rows may be: half of the largest ring, which
  // also fits into one message to the daemon.
  bool TakeRingForItem(const RingWriter& writer) ABSL_LOCKS_EXCLUDED(StateMutex());
  // From now on, the thread that used `writer` writes to `ring`.
  void ContinueIn(const std::shared_ptr<Ring>& ring, const RingWriter& writer);
  // AcquireRing() returns a ring that takes a record of `record_bytes` (0: the usual size) and a
  // row at `step`. Both return null if no ring is available, or if the run is closed. A ring that
  // is made during Finish() is either closed by Finish(), or removed unused.
  std::shared_ptr<Ring> AcquireRing(size_t record_bytes, int64_t step)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  std::shared_ptr<Ring> MakeRing(uint32_t thread, size_t record_bytes,
                                 std::shared_ptr<const Ring> before = nullptr)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  std::vector<std::shared_ptr<Ring>> Rings() ABSL_LOCKS_EXCLUDED(StateMutex());
  // Ends the stream of the ring that was idle longest, and drops rings whose data the daemon has
  // completely. The process's first ring stays: its stream reports the end of the process and the
  // delivery of the run.
  void RetireOldestIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // Counts the rows and items that were refused without a ring in the first ring, whose stream
  // reports them to the daemon. Does nothing without a ring.
  void MoveLossesToRing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  void ForgetParent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // True if this process's rows are the run's rows, so that this process waits for their delivery.
  bool HasRunsRows() const;
  // Returns the start of the wait for the run's end: now, or the start of another Finish() that has
  // not returned yet.
  std::chrono::steady_clock::time_point Close(int exit_code, bool by_destructor)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  bool CloseRing(Ring* ring, std::chrono::steady_clock::time_point deadline);
  WriteResult WriteItem(RingWriter* writer, std::string_view content);
  // For an item that is too large for the ring: leaves it in a file, and a reference in the ring.
  // Nullopt: it cannot be left there.
  std::optional<WriteResult> LeaveInFile(RingWriter* writer, std::string_view content);
  // Handles a result of `write` other than kTaken. Not inline, to keep LogRow() small.
  template <typename WriteFn>
  [[gnu::noinline]] bool NotTakenWhole(RingWriter* writer, WriteResult outcome, const int64_t* step,
                                       WriteFn& write);
  RowStep StepOf(const RingWriter& writer, const int64_t* step) const {
    return step == nullptr ? RowStep::Open(steps_.get())
                           : RowStep::Given(steps_.get(), writer.steps_word, *step);
  }
  // Records why values were left out of a row.
  bool TakenInPart(const RingWriter& writer) noexcept ABSL_LOCKS_EXCLUDED(StateMutex());
  // For a thread without a ring.
  bool RefusedWithoutRing() noexcept ABSL_LOCKS_EXCLUDED(StateMutex());
  bool Refused(RingWriter* writer, WriteResult outcome, std::string_view reason = "") noexcept;
  void StartMessages(std::vector<std::string> errors, std::vector<std::string> rank_errors)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  UserMessages::Facts CollectFacts() ABSL_LOCKS_EXCLUDED(StateMutex());
  std::string Refusal(uint64_t ring_full) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // How long rows have waited while the daemon accepted none.
  std::chrono::steady_clock::duration Stalled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // Returns why the spool was full when the last of `refused` rows did not fit.
  std::string FullReason(uint64_t refused) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  std::string LastError(uint64_t ring_full) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());

  const uint64_t token_;  // unique per run
  const std::chrono::steady_clock::time_point created_ = std::chrono::steady_clock::now();
  std::shared_ptr<RunState> held_;  // this object, by Hold()
  std::unique_ptr<SharedSteps> steps_;
  std::atomic<bool> closed_ = false;  // set under StateMutex()
  // What LogRow() must look at: the run is closed, or the facts are due. One word, so that Log()
  // loads only one.
  static constexpr uint32_t kIsClosed = 1;
  static constexpr uint32_t kFactsAreDue = 2;
  std::atomic<uint32_t> attention_ = 0;
  std::atomic<WriteResult> last_refusal_ = WriteResult::kTaken;
  bool usable_ = false;  // set by Create()
  Settings settings_;
  std::map<std::string, std::string> job_variables_;
  std::string settings_error_;  // the errors that Create() repaired
  v1::Hello hello_;             // the common part of its rings' Hellos

  // For the sender's thread. A forked child does not touch its parent's.
  std::unique_ptr<UserMessages> messages_;
  StderrLines lines_;
  std::chrono::steady_clock::time_point next_print_;
  bool only_mistakes_ = false;                  // report only mistakes in the settings
  bool received_message_ = false;               // from the daemon, since the last PrintMessages()
  std::atomic<bool> prints_last_line_ = false;  // the sender will print the run's last line
  std::atomic<bool> finish_timed_out_ = false;  // Finish() has timed out

  enum class Delivery { kNotAwaited, kAwaited, kDone };
  std::atomic<Delivery> delivery_ = Delivery::kNotAwaited;
  std::atomic<bool> stop_requested_ = false;  // never reset
  std::atomic<bool> has_tracker_ = false;     // the run goes to a tracker
  bool is_forked_ = false;                    // in a forked child: the run is its parent's
  bool is_attached_ = false;                  // the run was joined by a handle
  v1::RunHandle handle_;                      // set by Create()

  enum class Facts { kNone, kGathering, kDone };
  std::atomic<Facts> facts_state_ = Facts::kDone;
  Surroundings surroundings_;
  std::string facts_;  // a serialized item; constant once kFactsAreDue was set

  std::atomic<int> staging_ = 0;  // uploads whose files are not staged yet
  // Those were counted as refused, because Finish() no longer waits for them.
  std::atomic<bool> staging_abandoned_ = false;
  std::atomic<std::chrono::steady_clock::duration> staging_advanced_{};  // when, since its epoch
  std::atomic<bool> staging_cancelled_ = false;
  Event staging_ended_;
  std::vector<std::shared_ptr<SavedFile>> saved_ ABSL_GUARDED_BY(StateMutex());
  bool saves_are_watched_ ABSL_GUARDED_BY(StateMutex()) = false;
  bool saves_ended_ ABSL_GUARDED_BY(StateMutex()) = false;

  bool announced_ = false;  // `ranklog exec` logs the console; set by Create()
  ConsoleCapture* capture_ ABSL_GUARDED_BY(StateMutex()) = nullptr;

  // Rows refused while no ring could count them, by reason. See MoveLossesToRing().
  std::atomic<uint64_t> lost_without_ring_[std::size(kLossReasons)] = {};
  std::atomic<uint64_t> lost_items_ = 0;  // the same for items

  uint64_t generation_ ABSL_GUARDED_BY(StateMutex());
  std::vector<std::shared_ptr<Ring>> rings_ ABSL_GUARDED_BY(StateMutex());
  // Whose threads ended.
  std::vector<std::shared_ptr<Ring>> idle_rings_ ABSL_GUARDED_BY(StateMutex());
  Stats dropped_ ABSL_GUARDED_BY(StateMutex());  // of dropped rings
  uint32_t next_thread_ ABSL_GUARDED_BY(StateMutex()) = 0;
  std::chrono::steady_clock::time_point no_ring_before_ ABSL_GUARDED_BY(StateMutex());
  std::chrono::steady_clock::time_point no_larger_ring_before_ ABSL_GUARDED_BY(StateMutex());
  std::string last_error_ ABSL_GUARDED_BY(StateMutex());
  std::string invalid_ ABSL_GUARDED_BY(StateMutex());       // why the last invalid row was refused
  std::string refused_item_ ABSL_GUARDED_BY(StateMutex());  // why the last one was refused
  // Why values were left out of rows, each reason once.
  std::vector<std::string> left_out_ ABSL_GUARDED_BY(StateMutex());
  std::string connection_error_ ABSL_GUARDED_BY(StateMutex());
  std::string spool_notice_ ABSL_GUARDED_BY(StateMutex());  // of the first ring with a notice
  mutable std::chrono::steady_clock::time_point full_by_outage_until_ ABSL_GUARDED_BY(StateMutex());
  mutable std::string why_full_ ABSL_GUARDED_BY(StateMutex());
  mutable uint64_t why_full_rows_ ABSL_GUARDED_BY(StateMutex()) = 0;  // rows refused then
  v1::ContentPlace content_place_ ABSL_GUARDED_BY(StateMutex());      // of the last daemon
  bool has_hello_ ABSL_GUARDED_BY(StateMutex()) = false;              // a daemon has answered
  std::string content_error_ ABSL_GUARDED_BY(StateMutex());  // why the last item was not left there
  std::string other_state_dir_ ABSL_GUARDED_BY(StateMutex());  // see UserMessages::Facts
  std::string daemon_error_ ABSL_GUARDED_BY(StateMutex());     // reported by the daemon
  std::string run_id_ ABSL_GUARDED_BY(StateMutex());  // from the daemon; empty: not known yet
  std::string url_ ABSL_GUARDED_BY(StateMutex());     // the same
  int exit_code_ ABSL_GUARDED_BY(StateMutex()) = 0;   // of the first Finish()
  std::chrono::steady_clock::time_point closed_at_ ABSL_GUARDED_BY(StateMutex());
  bool by_destructor_ ABSL_GUARDED_BY(StateMutex()) = false;  // Finish() came from the destructor
};

}  // namespace ranklog::internal

#endif  // CLIENT_RUN_RUN_STATE_H_
