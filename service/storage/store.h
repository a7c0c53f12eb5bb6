// The daemon's memory: one SQLite file in the state directory. schema.md beside this describes it.
//
// Store writes, StoreReader reads; each is for one thread at a time. Any number of readers, in any
// process, may have the file open beside the one writer.

#ifndef SERVICE_STORAGE_STORE_H_
#define SERVICE_STORAGE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/file_identity.h"
#include "service/model/batch.h"
#include "service/model/run.h"
#include "service/model/session.h"
#include "service/storage/migrations.h"
#include "service/storage/retention.h"
#include "service/storage/sqlite.h"

namespace ranklog::storage {

inline constexpr char kStoreFile[] = "ranklog.db";

// Ids of shapes are at most this: readers get a list by id, and a list of a million takes 24 MB.
inline constexpr uint32_t kMaxShapeId = 1 << 20;

// How far the rows of a run have been made, and those of a stream used up: as model::Run's and
// model::Stream's.
struct RunPosition {
  int64_t last_step = -1;
  int64_t furthest_step = -1;
  uint32_t attempt = 1;
  int64_t step_base = 0;
};
struct UsedRows {
  uint64_t through = 0;  // aggregated_seq
  uint64_t late = 0;
  uint64_t replayed = 0;
  int64_t merged = 0;
  int64_t step_base = 0;
};

using model::RunAssignment;
using model::StoredUpdate;

// The one writer. Everything but Open, Begin, Checkpoint, InPlace and the destructor wants an open
// transaction, else kFailedPrecondition; naming a stream or a run that is not there is kNotFound.
//
// kInvalidArgument, kNotFound: the call did nothing, and the transaction goes on. Any other error
// of a call dooms the transaction: Commit() will return that error.
class Store {
 public:
  struct Options {
    const char* vfs = nullptr;  // SQLite's name of it; tests put a faulty one here
    absl::Span<const char* const> migrations = Migrations();  // tests have a version to come
  };

  // Opens or creates `state_dir`/ranklog.db (directory 0700, file 0600), and migrates it. Looks for
  // damage (see damage.h).
  //   kPermissionDenied    the directory cannot be made or written
  //   kFailedPrecondition  a newer version or another program wrote it
  //   kDataLoss            it is damaged, or is no SQLite database; nothing was changed, but a
  //                        migration may lie in its log
  //   kResourceExhausted   the disk is full
  // Whoever calls holds StateLock on the directory.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& state_dir,
                                                     const Options& options);

  absl::Status Begin();
  // On OK all since Begin survives a power cut. Costs one fsync, however much it is.
  //   kResourceExhausted   the disk is full, the quota used up, or a file at this process's limit
  //   kUnavailable         the file system is read-only, or the file is not InPlace(): what was
  //                        committed cannot be found by anybody
  // On any error the transaction is rolled back; after these two the same calls may be made again.
  absl::Status Commit();
  void Rollback();  // harmless without a transaction
  // Marks a point to which RollbackToMark() undoes, within the transaction; one at a time, the
  // newest.
  absl::Status Mark();
  void RollbackToMark();  // the mark stays; nothing that failed before the call is forgiven

  // The jobs of the starts under the session's launch.given_id, oldest first; the job of that name
  // is always among them.
  absl::StatusOr<std::vector<model::JobStart>> StartsOf(const model::Session& session);
  // {given_id}-2, -3, ...: the first that no job of the project has or had; under `main`, whose run
  // has the id of its job, one that is free for a run, too.
  absl::StatusOr<std::string> FreeJobId(const model::Session& session);

  // The runs of the session's job, oldest first.
  absl::StatusOr<std::vector<model::JobRun>> RunsOfJob(const model::Session& session);
  // Finds or makes the job, the run and the stream.
  //   The job's settings are those of the lowest rank that attached, of its last session; but the
  //   job's start time stays that of its first session. The run is assignment.run, else that of
  //   assignment.run_id. If another run has that id (of another job: one that a tracker may have),
  //   a new one gets the next free of {run_id}-2, -3, ..., and keeps it. Its name is its last
  //   primary session's; one that is the id follows it. A stream that had crashed is live
  //   again; one that had finished stays so (its Finish comes again). A run that had ended is
  //   running again if a stream is new to it or live again, and its deliveries are to be completed
  //   again. A stream that is new begins after the rows before session.first_seq, which went with
  //   another store: they count as its losses.with_store. So do those that a stream which is there
  //   lacks before session.first_seq (this store is an older copy then, or was recovered), and
  //   those that were removed with their run, where the same ring comes again: they are not taken
  //   twice.
  absl::StatusOr<model::Stream> Attach(const model::Session& session,
                                       const RunAssignment& assignment, int64_t now_us);
  // Chooses the primary of a run that has none, and names the run after it; the streams of that
  // rank become primary. If another run has that id, it gets a number, as in Attach(). True if it
  // was chosen now; false if it was chosen before, for good.
  absl::StatusOr<bool> ChoosePrimary(int64_t run, const RunAssignment& assignment);
  // Defining a shape again with the same keys is harmless. kInvalidArgument: with others, with
  // none, or with an id that is 0 or above kMaxShapeId.
  absl::Status DefineShape(int64_t stream, uint32_t shape, absl::Span<const std::string> keys);
  // Appends what is new of a valid batch and returns the stream's durable_seq after the commit.
  // Rows that are there are dropped.
  //   kInvalidArgument     a gap before batch.first, an unknown shape, a width that is not its
  //   shape's
  absl::StatusOr<uint64_t> Append(int64_t stream, const model::Batch& batch);
  // Says that the rows after the stream's last one, up to `seq`, are lost: they count as its
  // losses.with_store.
  absl::Status SkipTo(int64_t stream, uint64_t seq);
  // Keeps an update, unless it is the stream's last one again.
  absl::Status Apply(int64_t stream, const model::Update& update, int64_t now_us);
  absl::Status SetProgress(int64_t stream, int64_t passed_step);  // never goes back
  // What Attach() has found out, for streams that are copied from another store.
  absl::Status SetAttempt(int64_t stream, uint32_t attempt, bool began_anew);
  // Of what Log() refused; losses.with_store stays.
  absl::Status SetLosses(int64_t stream, const model::Losses& losses);
  // A stream that has finished stays so; one that crashed may still be found to have finished.
  // kInvalidArgument: kLive is no end.
  absl::Status EndStream(int64_t stream, model::StreamState state, int32_t exit_code,
                         absl::string_view reason, int64_t now_us);

  // The aggregate's results: appends rows to a run (batch.first is the run's `rows`; shapes are
  // defined before), and says how far each stream has been used up. The errors of DefineShape and
  // Append; rows that are there are an error too: kInvalidArgument.
  absl::Status DefineRunShape(int64_t run, uint32_t shape, absl::Span<const std::string> keys);
  absl::Status AppendRunRows(int64_t run, const model::Batch& batch);
  // The same for replays (batch.first is the run's `replays`).
  absl::Status AppendReplays(int64_t run, const model::Batch& batch);
  absl::Status AddRewind(int64_t run, const model::Rewind& rewind);
  absl::Status SetPosition(int64_t run, const RunPosition& position);
  absl::Status SetAggregated(int64_t stream, const UsedRows& used);
  // kInvalidArgument: kRunning is no end, or a stream of the run is live or has rows that are not
  // aggregated (it may have joined since the caller looked).
  absl::Status CloseRun(int64_t run, model::RunState state, int32_t exit_code,
                        absl::string_view reason, int64_t now_us);
  // Puts `why` before the reason of a run that failed or crashed, and ended at `ended_us`. Does nothing
  // to one that has gone on since, or was removed.
  absl::Status AddReason(int64_t run, int64_t ended_us, absl::string_view why);

  // Gives a run another destination, with nothing delivered yet; harmless if it has it already.
  //   kNotFound  no such run
  absl::Status AddDelivery(int64_t run, absl::string_view kind);
  // Creates or replaces, but for its crashes; `complete` only if the run has ended by now and all
  // its rows are delivered.
  absl::Status PutDelivery(const model::Delivery& delivery);
  // Stores `crashes`, `crashed_version` and `last_error`, and nothing else.
  absl::Status SetCrashes(const model::Delivery& delivery);
  // A delivery that is set apart is not, until the next crash. Does nothing to any other.
  absl::Status TryAgain(int64_t run, absl::string_view kind);
  // Forgets the crashes of deliveries that are not set apart: later ones are not in a row with
  // them.
  absl::Status ForgetCrashes();
  absl::Status AddDeadLetter(const model::DeadLetter& letter);  // its id is the store's to give

  // Removes a run that `removal` takes (retention.h): from the commit on no reader sees it, nor
  // anything of it. Its ids are not given again. What it held stays in the file until
  // SweepRemoved().
  //   kFailedPrecondition  it may not go, or is not there
  absl::Status RemoveRun(int64_t run, int64_t now_us, Removal removal = Removal::kDelivered);
  // Frees a part of what removed runs held, some milliseconds' work.
  struct Swept {
    int64_t records = 0;
    uint64_t bytes = 0;
    bool more = false;  // there may be more
  };
  absl::StatusOr<Swept> SweepRemoved();

  // Moves what the log of writes holds into the database file, and shortens a log that has become
  // long. On a second connection of its own, so it may be called from another thread than the
  // writer's, and needs no transaction. Readers and writers go on meanwhile; shortening makes the
  // next commit wait for it. Where a commit, a reader or another process is in the way, it is left
  // to the next call: OK.
  absl::Status Checkpoint();

  // False once the file was removed or replaced, or the directory with it. SQLite goes on writing
  // to what has no name any more; open another store. From any thread.
  bool InPlace() const { return file_.InPlace(); }

 private:
  // What Append needs to know of a stream or a run. Dropped whenever a transaction is undone.
  struct Known {
    uint64_t next = 0;             // the position that the next row must have
    std::string owner;             // seals its blobs
    std::vector<uint32_t> widths;  // by shape id; 0: not defined
    uint32_t WidthOf(uint32_t shape) const { return shape < widths.size() ? widths[shape] : 0; }
    void SetWidth(uint64_t shape, uint64_t width);
  };
  struct JobAndRun {
    int64_t job = 0;
    int64_t run = 0;
    int64_t start = 0;
  };
  enum class Owner { kStream, kRun };

  Store(Database writer, Database checkpointer)
      : writer_(std::move(writer)), checkpointer_(std::move(checkpointer)), file_(writer_.path()) {}

  // Runs a statement that writes; an error dooms the transaction.
  absl::Status Write(absl::string_view sql, std::initializer_list<Parameter> parameters);
  // The same, with kNotFound if it changed no row: the one of `id` is not there.
  absl::Status WriteOne(absl::string_view sql, int64_t id,
                        std::initializer_list<Parameter> parameters);
  absl::Status CheckInTransaction() const;
  void ForgetKnown();

  absl::StatusOr<int64_t> FindOrMakeJob(const model::Session& session);
  absl::Status MergeSettings(int64_t job, const model::Session& session);
  absl::StatusOr<int64_t> FindOrMakeRun(const std::string& project, int64_t job,
                                        const RunAssignment& assignment, int64_t now_us);
  // 0: there is none.
  absl::StatusOr<int64_t> FindRun(const std::string& project, int64_t job,
                                  const RunAssignment& assignment);
  // The store's id of the session's start; 0 if its launch is unknown.
  absl::StatusOr<int64_t> FindOrMakeStart(const model::Session& session,
                                          const RunAssignment& assignment);
  // Whether no run of the project's other jobs has this id, nor had it when retention removed it;
  // but for parts of runs that stay here, of which no tracker hears.
  absl::StatusOr<bool> IsFree(const std::string& project, int64_t job, const std::string& run_id);
  // The id that `run` gets, which may be 0: it is not made yet.
  absl::StatusOr<std::string> FreeRunId(const std::string& project, int64_t job, int64_t run,
                                        const RunAssignment& assignment);
  // Which attempt of its run a new stream belongs to.
  struct Beginning {
    int64_t attempt = 1;
    bool anew = false;
  };
  absl::StatusOr<Beginning> BeginningOf(int64_t run, const model::Session& session, bool primary);
  absl::StatusOr<int64_t> MakeStream(const JobAndRun& owner, const model::Session& session,
                                     bool primary, int64_t now_us);
  absl::Status Reopen(int64_t run);

  absl::StatusOr<Known*> Find(Owner owner, int64_t id);
  static absl::Status CheckFits(const model::Batch& batch, const Known& known);
  static absl::Status CheckShapes(const model::Batch& batch, const Known& known);
  absl::Status Define(Owner owner, int64_t id, uint32_t shape, absl::Span<const std::string> keys);

  Database writer_;
  Database checkpointer_;
  const FileIdentity file_;
  bool marked_ = false;
  absl::Status doom_;  // the first error of this transaction
  absl::flat_hash_map<int64_t, Known> streams_;
  absl::flat_hash_map<int64_t, Known> runs_;
  std::string blob_;  // used again by each append
};

// A batch as it lies in the store: of a stream, of a run, or of its replays.
struct StoredBatch {
  int64_t id = 0;
  int64_t owner = 0;  // the stream or the run
  model::Batch batch;
};

// What waits for the trackers of one kind, over all runs.
struct Queue {
  std::string kind;
  uint64_t rows = 0;
  uint64_t bytes = 0;     // of these rows as they are stored; of a long queue an estimate
  int64_t oldest_us = 0;  // when its oldest row was logged, Unix time; 0: unknown
};

// Reads; sees what was committed when each call began. Every call may find damage: kDataLoss.
class StoreReader {
 public:
  //   kNotFound            no store there
  //   kFailedPrecondition  a newer version, an older one or another program wrote it
  //   kDataLoss            it is damaged
  //   kPermissionDenied    it may not be read
  static absl::StatusOr<std::unique_ptr<StoreReader>> Open(const std::string& state_dir,
                                                           const char* vfs = nullptr);

  // From now on batches behind missing ones are read too, for who looks for gaps by itself.
  void PassOverMissing() { pass_over_missing_ = true; }

  absl::StatusOr<std::vector<model::Run>> Runs();                   // newest first
  absl::StatusOr<model::Run> GetRun(int64_t run);                   // kNotFound
  absl::StatusOr<std::vector<model::Stream>> Streams(int64_t run);  // by rank, thread, start
  absl::StatusOr<model::Stream> GetStream(int64_t stream);          // kNotFound
  absl::StatusOr<model::Stream> StreamOfRing(const model::StreamKey& key);  // kNotFound
  // The streams of runs that are running: what a daemon takes up again when it starts.
  absl::StatusOr<std::vector<model::Stream>> LiveStreams();

  // These four: kNotFound if the stream or the run is not there (any more: it may be removed
  // between two calls).
  // Keys by shape id; ids count from 1, so element 0 is empty, as is that of an id never defined.
  absl::StatusOr<std::vector<std::vector<std::string>>> Shapes(int64_t stream);
  absl::StatusOr<std::vector<std::vector<std::string>>> RunShapes(int64_t run);

  // Batches of a stream with rows after `seq`, in order, at most about `max_bytes` of them (at
  // least one). The first may begin with rows up to `seq`. kDataLoss too where one is missing.
  absl::StatusOr<std::vector<StoredBatch>> StreamBatches(int64_t stream, uint64_t after_seq,
                                                         size_t max_bytes);
  // Batches of a run with rows from `index` on, in order; the same bound, and the same for the
  // first.
  absl::StatusOr<std::vector<StoredBatch>> RunBatches(int64_t run, uint64_t from_index,
                                                      size_t max_bytes);

  // The same of its replays.
  absl::StatusOr<std::vector<StoredBatch>> ReplayBatches(int64_t run, uint64_t from_index,
                                                         size_t max_bytes);
  absl::StatusOr<std::vector<model::Rewind>> Rewinds(int64_t run);  // oldest first

  // The updates of a run's streams, oldest first, with ids above `after_id`.
  absl::StatusOr<std::vector<StoredUpdate>> Updates(int64_t run, int64_t after_id);

  absl::StatusOr<std::vector<model::Delivery>> Deliveries(int64_t run);
  absl::StatusOr<std::vector<model::Delivery>>
  PendingDeliveries();  // not complete, oldest run first
  absl::StatusOr<std::vector<model::DeadLetter>> DeadLetters(int64_t run);  // oldest first
  // By kind; those that have rows. Two short queries for each run that waits.
  absl::StatusOr<std::vector<Queue>> Queues();
  absl::StatusOr<model::Losses> LossesOfAll();  // over all streams
  // Looks for damage as Store::Open does.
  absl::Status Check();
  absl::StatusOr<int64_t> FileBytes();  // of the database and its log of writes
  absl::StatusOr<int64_t> UsedBytes();  // of the database, without its free pages

  // As RemovableRuns() in retention.h.
  absl::StatusOr<std::vector<RemovableRun>> Removable(int64_t ended_by_us);
  // What its rows and those of its streams take. Reads their index: a bar is for who asks of many.
  absl::StatusOr<uint64_t> BytesOfRun(int64_t run);
  // The last row that was removed with the run of this ring; kNotFound if it was not.
  absl::StatusOr<uint64_t> RemovedThrough(const model::StreamKey& key);

 private:
  explicit StoreReader(Database database) : database_(std::move(database)) {}
  absl::StatusOr<std::vector<model::Stream>> StreamsOf(Query query);
  // Whose blobs are to be read, as the store says before they are.
  struct Owner {
    std::string seal;
    uint64_t next = 0;  // the position after its last row
    bool gaps = false;  // positions may be missing
  };
  absl::StatusOr<Owner> OwnerOf(const char* sql, int64_t id);
  absl::StatusOr<std::vector<std::vector<std::string>>> ShapesOf(Query query,
                                                                 absl::string_view owner);
  // `position` is that of the first row that is wanted.
  absl::StatusOr<std::vector<StoredBatch>> BatchesOf(Query query, const Owner& owner,
                                                     uint64_t position, size_t max_bytes);
  absl::StatusOr<std::vector<model::Delivery>> DeliveriesOf(Query query);
  absl::StatusOr<uint64_t> BytesOfRows(int64_t run, uint64_t first, uint64_t rows);

  Database database_;
  bool pass_over_missing_ = false;
};

// Holds a state directory: one daemon (or one `ranklog sync`) has it. Two locks: that of the file
// `lock`, which holds the pid, and that of the directory itself (flock), which nobody can remove
// while the store is in it. systemd-tmpfiles, which removes old files of /var/tmp, leaves a
// directory with such a lock alone (tmpfiles.d(5)).
class StateLock {
 public:
  // Creates the directory if absent (0700).
  //   kAlreadyExists       another process holds it; the message says which pid. If the directory
  //                        is locked and the file is not, after 3 s
  //   kPermissionDenied    the directory cannot be made or written
  //   kFailedPrecondition  it lies on a network file system (CheckLocal in file_system.h)
  static absl::StatusOr<StateLock> Acquire(const std::string& state_dir);
  // The pid of the holder, or 0. Takes nothing.
  static int64_t Holder(const std::string& state_dir);

  // Makes and locks the file again if it was removed or replaced, and is true then; to be called
  // now and then, for Holder() looks there.
  //   kAlreadyExists       another process holds the file that is there now
  absl::StatusOr<bool> Keep();

  StateLock(StateLock&& other) noexcept
      : dir_(std::move(other.dir_)),
        file_(std::move(other.file_)),
        dir_fd_(std::exchange(other.dir_fd_, -1)),
        fd_(std::exchange(other.fd_, -1)) {}
  StateLock& operator=(StateLock&&) = delete;
  ~StateLock();

 private:
  explicit StateLock(std::string dir) : dir_(std::move(dir)) {}
  absl::Status LockDirectory();
  absl::Status LockFile();

  std::string dir_;
  FileIdentity file_;  // of fd_
  int dir_fd_ = -1;
  int fd_ = -1;
};

// Says that a daemon waits for a state directory, as long as it lives: `ranklog sync`, which may
// hold the directory for hours, looks for it and gives way. Without such a lock to be had it says
// nothing.
class StateWish {
 public:
  explicit StateWish(const std::string& state_dir);
  ~StateWish();
  StateWish(const StateWish&) = delete;
  StateWish& operator=(const StateWish&) = delete;

  // Whether there is one. Takes nothing.
  static bool Any(const std::string& state_dir);

 private:
  int fd_ = -1;
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_STORE_H_
