// The daemon's memory: one SQLite file in the state directory. schema.md beside this describes it.
//
// Store writes, StoreReader reads; each is for one thread at a time. Any number of readers, in any process,
// may have the file open beside the one writer.

#ifndef SERVICE_STORAGE_STORE_H_
#define SERVICE_STORAGE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "service/model/batch.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::storage {

inline constexpr char kStoreFile[] = "ranklog.db";

using model::RunAssignment;

// The one writer. Everything but Open, Begin and the destructor wants an open transaction.
class Store {
 public:
  struct Options {
    bool allow_network_file_system = false;
    const char* vfs = nullptr;  // SQLite's name of it; tests put a faulty one here
  };

  // Opens or creates `state_dir`/ranklog.db (directory 0700, file 0600), and migrates it.
  //   kPermissionDenied    the directory cannot be made or written
  //   kFailedPrecondition  a newer version wrote it, or it lies on a network file system
  //   kDataLoss            it is damaged, or is no SQLite database
  // Whoever calls holds StateLock on the directory.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& state_dir, const Options& options);
  virtual ~Store() = default;

  virtual absl::Status Begin() = 0;
  // On OK all since Begin survives a power cut.
  //   kResourceExhausted   the disk is full
  // On any error the transaction is rolled back.
  virtual absl::Status Commit() = 0;
  virtual void Rollback() = 0;
  // Marks a point to which RollbackTo() undoes, within the transaction; one at a time.
  virtual absl::Status Mark() = 0;
  virtual void RollbackToMark() = 0;

  // Finds or makes the job, the run and the stream; a stream or run that had ended is running again.
  virtual absl::StatusOr<model::Stream> Attach(const model::Session& session, const RunAssignment& assignment,
                                               int64_t now_us) = 0;
  // Defining a shape again with the same keys is harmless; with others: kInvalidArgument.
  virtual absl::Status DefineShape(int64_t stream, uint32_t shape, absl::Span<const std::string> keys) = 0;
  // Appends what is new of a valid batch and returns the stream's durable_seq after the commit. Rows that
  // are there are dropped.
  //   kInvalidArgument     a gap before batch.first, an unknown shape, a width that is not its shape's
  virtual absl::StatusOr<uint64_t> Append(int64_t stream, const model::Batch& batch) = 0;
  virtual absl::Status Apply(int64_t stream, const model::Update& update, int64_t now_us) = 0;
  virtual absl::Status SetProgress(int64_t stream, int64_t passed_step) = 0;
  virtual absl::Status SetLosses(int64_t stream, const model::Losses& losses) = 0;
  virtual absl::Status EndStream(int64_t stream, model::StreamState state, int32_t exit_code,
                                 absl::string_view reason, int64_t now_us) = 0;

  // The aggregate's results: appends rows to a run (batch.first is the run's `rows`; shapes are defined
  // before), and says how far each stream has been used up.
  virtual absl::Status DefineRunShape(int64_t run, uint32_t shape, absl::Span<const std::string> keys) = 0;
  virtual absl::Status AppendRunRows(int64_t run, const model::Batch& batch) = 0;
  virtual absl::Status SetLastStep(int64_t run, int64_t last_step) = 0;
  virtual absl::Status SetAggregated(int64_t stream, uint64_t aggregated_seq, uint64_t late_rows) = 0;
  virtual absl::Status CloseRun(int64_t run, model::RunState state, int32_t exit_code, absl::string_view reason,
                                int64_t now_us) = 0;

  // Creates or replaces.
  virtual absl::Status PutDelivery(const model::Delivery& delivery) = 0;
  virtual absl::Status AddDeadLetter(const model::DeadLetter& letter) = 0;

  // Moves what the log of writes holds into the database file. On a second connection of its own, so it may
  // be called from another thread than the writer's, and needs no transaction.
  virtual absl::Status Checkpoint() = 0;
};

// A batch as it lies in the store: of a stream, or of a run.
struct StoredBatch {
  int64_t id = 0;
  int64_t owner = 0;  // the stream or the run
  model::Batch batch;
};

using model::StoredUpdate;

// Reads; sees what was committed when each call began.
class StoreReader {
 public:
  //   kNotFound            no store there
  //   kFailedPrecondition  a newer version wrote it
  //   kDataLoss            it is damaged
  static absl::StatusOr<std::unique_ptr<StoreReader>> Open(const std::string& state_dir, const char* vfs = nullptr);
  virtual ~StoreReader() = default;

  virtual absl::StatusOr<std::vector<model::Run>> Runs() = 0;  // newest first
  virtual absl::StatusOr<model::Run> GetRun(int64_t run) = 0;  // kNotFound
  virtual absl::StatusOr<std::vector<model::Stream>> Streams(int64_t run) = 0;  // by rank, thread, start
  virtual absl::StatusOr<model::Stream> GetStream(int64_t stream) = 0;  // kNotFound
  // The streams of runs that are running: what a daemon takes up again when it starts.
  virtual absl::StatusOr<std::vector<model::Stream>> LiveStreams() = 0;

  // Keys by shape id; ids are dense from 1, so element 0 is empty.
  virtual absl::StatusOr<std::vector<std::vector<std::string>>> Shapes(int64_t stream) = 0;
  virtual absl::StatusOr<std::vector<std::vector<std::string>>> RunShapes(int64_t run) = 0;

  // Batches of a stream with rows after `seq`, in order, at most about `max_bytes` of them (at least one).
  virtual absl::StatusOr<std::vector<StoredBatch>> StreamBatches(int64_t stream, uint64_t after_seq, size_t max_bytes) = 0;
  // Batches of a run with rows from `index` on, in order; the same bound.
  virtual absl::StatusOr<std::vector<StoredBatch>> RunBatches(int64_t run, uint64_t from_index, size_t max_bytes) = 0;

  // The updates of a run's streams, oldest first, with ids above `after_id`.
  virtual absl::StatusOr<std::vector<StoredUpdate>> Updates(int64_t run, int64_t after_id) = 0;

  virtual absl::StatusOr<std::vector<model::Delivery>> Deliveries(int64_t run) = 0;
  virtual absl::StatusOr<std::vector<model::Delivery>> PendingDeliveries() = 0;  // not complete, oldest run first
  virtual absl::StatusOr<std::vector<model::DeadLetter>> DeadLetters(int64_t run) = 0;
  virtual absl::StatusOr<int64_t> FileBytes() = 0;
};

// Holds `state_dir`/lock: one daemon (or one `ranklog sync`) per state directory. The file holds the pid.
class StateLock {
 public:
  // Creates the directory if absent (0700).
  //   kAlreadyExists     another process holds it; the message says which pid
  //   kPermissionDenied  the directory cannot be made or written
  static absl::StatusOr<StateLock> Acquire(const std::string& state_dir);
  // The pid of the holder, or 0. Takes nothing.
  static int64_t Holder(const std::string& state_dir);

  StateLock(StateLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  StateLock& operator=(StateLock&&) = delete;
  ~StateLock();

 private:
  explicit StateLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_STORE_H_
