// The daemon's durable state: one SQLite file in the state directory. schema.md describes it.
//
// Store writes, StoreReader (store_reader.h) reads; each object is for one thread at a time. Any
// number of readers, in any process, may have the file open beside the one writer.

#ifndef SERVICE_STORAGE_STORE_H_
#define SERVICE_STORAGE_STORE_H_

#include <cstdint>
#include <memory>
#include <set>
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
#include "service/model/sample.h"
#include "service/model/session.h"
#include "service/storage/database/migrations.h"
#include "service/storage/database/retention.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

// How far a run's rows have been made, and a stream's rows have been used. The fields are as in
// model::Run and model::Stream.
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

// The only writer. Every function except Open, Begin, Checkpoint, InPlace and the destructor needs
// an open transaction.
//   kFailedPrecondition  no transaction is open
//   kNotFound            the stream or run does not exist
// After kInvalidArgument and kNotFound, the call had no effect, and the transaction can continue.
// After any other error, the transaction has failed, and Commit() returns that error.
class Store {
 public:
  struct Options {
    const char* vfs = nullptr;  // SQLite's name of the VFS; tests use a faulty one
    absl::Span<const char* const> migrations = Migrations();  // tests add future versions
  };

  // Opens or creates `state_dir`/ranklog.db (directory 0700, file 0600), and migrates it. Checks
  // for damage (see damage.h). The caller must hold StateLock on the directory.
  //   kPermissionDenied    the directory cannot be made or written
  //   kFailedPrecondition  a newer version or another program wrote it
  //   kDataLoss            it is damaged, or is not an SQLite database; the file was not changed,
  //                        but its log may contain a migration
  //   kResourceExhausted   the disk is full
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& state_dir,
                                                     const Options& options);

  absl::Status Begin();
  // On OK, all changes since Begin() survive a power cut. Costs one fsync, however many changes
  // there are.
  //   kResourceExhausted   the disk is full, the quota is used up, or a file is at this process's
  //                        limit
  //   kUnavailable         the file system is read-only, or the file is not InPlace(), so that
  //                        nobody could find what was committed
  // On any error the transaction is rolled back. After these two errors, the same calls may be
  // repeated. After another error of the disk the log may still contain the transaction: a process
  // that opens the store next would find it committed. The next commit, also one without changes,
  // overwrites it.
  absl::Status Commit();
  void Rollback();  // harmless without a transaction
  // Sets the mark to which RollbackToMark() undoes changes, within the transaction. There is only
  // one mark, the newest.
  absl::Status Mark();
  void RollbackToMark();  // the mark stays; a doomed transaction stays doomed

  // The jobs of the starts under the session's launch.given_id, oldest first. The job with that
  // name is always among them.
  absl::StatusOr<std::vector<model::JobStart>> StartsOf(const model::Session& session);
  // The first of {given_id}-2, -3, ... that no job of the project has or had. Under `main`, where
  // the run has the id of its job, the id must also be free for a run.
  absl::StatusOr<std::string> FreeJobId(const model::Session& session);

  // The runs of the session's job, oldest first.
  absl::StatusOr<std::vector<model::JobRun>> RunsOfJob(const model::Session& session);
  // Finds or makes the job, the run and the stream.
  //
  // Job: its settings are those of the lowest rank that attached, from that rank's last session.
  // Its start time stays that of its first session.
  //
  // Run: it is assignment.run, or else the run with assignment.run_id. If another job's run has
  // that id, and a tracker may have it, a new run gets the next free one of {run_id}-2, -3, ... Its
  // name comes from its last primary session; a name that equals the id follows the id. If a stream
  // is new to an ended run, or live again, the run is running again, and its deliveries must be
  // completed again.
  //
  // Stream: one that had crashed is live again. One that had finished stays finished (its rank
  // repeats the Finish). These rows count as its losses.with_store, and are not stored again:
  //   - new stream: the rows before session.first_seq, which were lost with another store
  //   - known stream: the rows that it lacks before session.first_seq; then this store is an older
  //     copy, or was recovered
  //   - ring that attaches again after its run was removed: the rows that were removed with the run
  // The same holds for items, session.first_item and lost_items.
  absl::StatusOr<model::Stream> Attach(const model::Session& session,
                                       const RunAssignment& assignment, int64_t now_us);
  // Chooses the primary rank of a run that has none, and names the run after it. The streams of
  // that rank become primary. If another run has that id, this run gets a number, as in Attach().
  // Returns true if the rank was chosen now, false if it was chosen before; the choice is final.
  absl::StatusOr<bool> ChoosePrimary(int64_t run, const RunAssignment& assignment);
  // Defining a shape again with the same keys is harmless.
  //   kInvalidArgument     the shape has other keys already, `keys` is empty, or the id is 0 or
  //                        above kMaxShapeId
  absl::Status DefineShape(int64_t stream, uint32_t shape, absl::Span<const std::string> keys);
  // Appends the new rows of a valid batch, and returns the stream's durable_seq after the commit.
  // Drops rows that are already stored.
  //   kInvalidArgument     there is a gap before batch.first, a shape is unknown, or a width is not
  //                        that of its shape
  absl::StatusOr<uint64_t> Append(int64_t stream, const model::Batch& batch);
  // Marks the rows after the stream's last one, up to `seq`, as lost: they count as its
  // losses.with_store.
  absl::Status SkipTo(int64_t stream, uint64_t seq);
  // Appends the new ones of a stream's items, and returns its durable_item after the commit. Drops
  // items that are already stored. Consecutive items of a run that have one kind and stream are
  // merged, with a new id, as long as the result is small.
  //   kInvalidArgument     there is a gap before an item, or a row before it is missing
  absl::StatusOr<uint64_t> AppendItems(int64_t stream, absl::Span<const model::Item> items);
  // Marks the items after the stream's last one, up to `seq`, as lost.
  absl::Status SkipItemsTo(int64_t stream, uint64_t seq);
  absl::Status SetProgress(int64_t stream, int64_t passed_step);  // never goes back
  // Sets the results of Attach(), for streams that are copied from another store.
  absl::Status SetAttempt(int64_t stream, uint32_t attempt, bool began_anew);
  // Sets the counts of rows and items that the rank refused. Does not change losses.with_store.
  absl::Status SetLosses(int64_t stream, const model::Losses& losses);
  // The stream that carries a ring; kNotFound. The job id of `key` is not used.
  absl::StatusOr<model::Stream> StreamOfRing(const model::StreamKey& key);
  // Of a stream of another node.
  struct PeerStream {
    bool live = false;
    uint64_t late_rows = 0;
  };
  absl::StatusOr<PeerStream> GetPeerStream(int64_t stream);
  // The newest run of rank 0 in the job, which other nodes join; kNotFound.
  struct HomeRun {
    int64_t id = 0;
    std::string run_id;
    bool running = false;
  };
  absl::StatusOr<HomeRun> HomeRunOf(const std::string& project, const std::string& job_id);
  // Sets how far the daemon of rank 0's node has a stream, which is sent there from now on. Never
  // goes back.
  absl::Status SetJoined(int64_t stream, uint64_t seq, model::Joined joined, uint64_t late_rows);
  // Ends these live streams of other nodes with `reason`, unless a rank of this daemon is still live
  // in the run. True: they have ended.
  absl::StatusOr<bool> EndPeers(int64_t run, absl::Span<const int64_t> streams,
                                absl::string_view reason, int64_t now_us);
  // Ends a stream. A finished stream stays finished. A crashed one may still become finished.
  //   kInvalidArgument     the state is kLive
  absl::Status EndStream(int64_t stream, model::StreamState state, int32_t exit_code,
                         absl::string_view reason, int64_t now_us);

  // The next functions store the results of the aggregation. They append rows to a run, and record
  // how far each stream was used. batch.first must be the run's `rows`, and shapes must be defined
  // before. The errors are those of DefineShape() and Append(). Unlike there, rows that are already
  // stored are kInvalidArgument.
  absl::Status DefineRunShape(int64_t run, uint32_t shape, absl::Span<const std::string> keys);
  absl::Status AppendRunRows(int64_t run, const model::Batch& batch);
  // The same for replays; batch.first must be the run's `replays`.
  absl::Status AppendReplays(int64_t run, const model::Batch& batch);
  absl::Status AddRewind(int64_t run, const model::Rewind& rewind);
  absl::Status SetPosition(int64_t run, const RunPosition& position);
  absl::Status SetAggregated(int64_t stream, const UsedRows& used);
  //   kInvalidArgument     the state is kRunning, or a stream of the run is live or has rows that
  //                        are not aggregated. The stream may have joined since the caller looked
  absl::Status CloseRun(int64_t run, model::RunState state, int32_t exit_code,
                        absl::string_view reason, int64_t now_us);
  // Changes the name of a run.
  absl::Status Rename(int64_t run, absl::string_view name);
  // Prepends `why` to the reason of a run that failed or crashed and ended at `ended_us`. Does
  // nothing if the run has continued since then, or was removed.
  absl::Status AddReason(int64_t run, int64_t ended_us, absl::string_view why);

  // Appends a sample with the run's next number; sample.number is not used.
  //   kNotFound  the run does not exist, or has ended: its deliveries may be complete
  absl::Status AppendSample(int64_t run, const model::Sample& sample);
  // Sets the facts about the hardware of the node on which the run's samples are taken. Does nothing
  // if there is no such run.
  absl::Status SetHardware(int64_t run, const model::Json& hardware);

  // Adds a destination to a run, with nothing delivered yet. Harmless if the run has it already.
  //   kNotFound  no such run
  absl::Status AddDelivery(int64_t run, absl::string_view kind);
  // The settings of the run's job.
  absl::StatusOr<model::RunSettings> SettingsOf(int64_t run);
  // Changes settings of a destination for the run's job, and so for all runs of the job. The caller
  // ensures that no process delivers one of them to another server. Does nothing if those are the
  // values.
  //   kFailedPrecondition  a run of the job is running, so its ranks give them. Or the tracker has
  //                        a part of a run, so its other rows belong there, too
  absl::Status SetDestination(int64_t run, const std::string& kind,
                              const std::map<std::string, std::string>& settings);
  // Creates or replaces a delivery, but not its crashes. `complete` is stored only if the run has
  // ended and all its rows and items are delivered.
  absl::Status PutDelivery(const model::Delivery& delivery);
  // Stores only `crashes`, `crashed_version` and `last_error`.
  absl::Status SetCrashes(const model::Delivery& delivery);
  // Enables a delivery that is set apart, until the next crash. Does nothing to any other delivery.
  absl::Status TryAgain(int64_t run, absl::string_view kind);
  // Resets the crash counts of deliveries that are not set apart, so that later crashes are not
  // consecutive with them.
  absl::Status ForgetCrashes();
  absl::Status AddDeadLetter(const model::DeadLetter& letter);  // the store chooses its id

  // Removes a run that `removal` accepts (retention.h). After the commit, no reader sees the run or
  // any part of it. Its ids are not used again. Its data stays in the file until SweepRemoved().
  //   kFailedPrecondition  the run may not be removed, or does not exist
  absl::Status RemoveRun(int64_t run, int64_t now_us, Removal removal = Removal::kDelivered);
  // Frees a part of the data of removed runs; takes some milliseconds.
  struct Swept {
    int64_t records = 0;
    uint64_t bytes = 0;
    bool more = false;  // there may be more
  };
  absl::StatusOr<Swept> SweepRemoved();

  // Moves the content of the write-ahead log into the database file, and shortens a long log. Uses
  // a connection of its own, so another thread than the writer's may call it. Needs no transaction.
  // Readers and writers continue meanwhile, but the next commit waits while the log is shortened.
  // If a commit, a reader or another process blocks it, the rest is left to the next call, and the
  // result is OK.
  absl::Status Checkpoint();

  // False after the file or its directory was removed or replaced. SQLite would continue to write
  // to a file without a name, so open another store. Any thread may call this.
  bool InPlace() const { return file_.InPlace(); }

 private:
  // The data about a stream or a run that Append() needs. Dropped whenever a transaction is undone.
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

  // Runs a statement that writes. An error dooms the transaction.
  absl::Status Write(absl::string_view sql, absl::Span<const Parameter> parameters);
  // The same, but kNotFound if it changed no row, because no record has `id`.
  absl::Status WriteOne(absl::string_view sql, int64_t id, absl::Span<const Parameter> parameters);
  absl::Status CheckInTransaction() const;
  absl::Status DirtyAPage();
  void ForgetKnown();

  absl::Status CheckNotRunning(int64_t job);  // for SetDestination()
  // The trackers that have a part of one of the job's runs.
  absl::StatusOr<std::set<std::string>> TrackersOf(int64_t job);
  absl::StatusOr<int64_t> FindOrMakeJob(const model::Session& session);
  // Keeps the server's address once a tracker has a part of a run: rows of one run belong to one
  // server.
  absl::Status MergeSettings(int64_t job, const model::Session& session);
  absl::StatusOr<int64_t> FindOrMakeRun(const std::string& project, int64_t job,
                                        const RunAssignment& assignment, int64_t now_us);
  // 0 if it does not exist.
  absl::StatusOr<int64_t> FindRun(const std::string& project, int64_t job,
                                  const RunAssignment& assignment);
  // The store's id of the session's start; 0 if its launch is unknown.
  absl::StatusOr<int64_t> FindOrMakeStart(const model::Session& session,
                                          const RunAssignment& assignment);
  // Whether no run of the project's other jobs has this id, and no run that retention removed had
  // it. Parts of runs that stay on this node do not count, because no tracker has them.
  absl::StatusOr<bool> IsFree(const std::string& project, int64_t job, const std::string& run_id);
  // The id for `run`. `run` is 0 if it does not exist yet.
  absl::StatusOr<std::string> FreeRunId(const std::string& project, int64_t job, int64_t run,
                                        const RunAssignment& assignment);
  // The attempt of its run to which a new stream belongs.
  struct Beginning {
    int64_t attempt = 1;
    bool anew = false;
  };
  absl::StatusOr<Beginning> BeginningOf(int64_t run, const model::Session& session, bool primary);
  absl::StatusOr<int64_t> MakeStream(const JobAndRun& owner, const model::Session& session,
                                     bool primary, int64_t now_us);
  absl::Status Reopen(int64_t run);

  absl::StatusOr<Known*> Find(Owner owner, int64_t id);
  absl::Status AppendItem(int64_t run, int64_t stream, model::Item item);
  // Defined in store_console.cc.
  absl::Status AppendConsole(int64_t run, int64_t stream, const model::Item& item);
  // An earlier item whose keys a later one sets again. `document` has its other keys; empty: none.
  struct ReplacedItem {
    int64_t id;
    std::string document;
  };
  // If items of several streams alternate, they are not merged. This takes the keys that `item` sets
  // from earlier items of its stream, so that their number is bounded by that of the keys.
  absl::StatusOr<std::vector<ReplacedItem>> TakeReplacedKeys(int64_t stream, model::Item* item);
  static absl::Status CheckFits(const model::Batch& batch, const Known& known);
  static absl::Status CheckShapes(const model::Batch& batch, const Known& known);
  absl::Status Define(Owner owner, int64_t id, uint32_t shape, absl::Span<const std::string> keys);

  Database writer_;
  Database checkpointer_;
  const FileIdentity file_;
  // SQLite may have ended the transaction since Begin(), for example after a failed read.
  bool begun_ = false;
  bool marked_ = false;
  bool log_may_differ_ = false;  // a failed commit may be in the log
  absl::Status failed_;          // the first error that dooms this transaction
  absl::flat_hash_map<int64_t, Known> streams_;
  absl::flat_hash_map<int64_t, Known> runs_;
  std::string blob_;  // reused by each append
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_STORE_H_
