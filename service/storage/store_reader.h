// Reads the store: its runs, their rows, and the rows that wait for the trackers. Any number of
// readers, in any process, may have the file open beside the one writer (store.h). Each reader is
// for one thread at a time.

#ifndef SERVICE_STORAGE_STORE_READER_H_
#define SERVICE_STORAGE_STORE_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/model/batch.h"
#include "service/model/run.h"
#include "service/model/sample.h"
#include "service/model/session.h"
#include "service/storage/database/retention.h"
#include "service/storage/database/sqlite.h"
#include "service/storage/rows/batch_codec.h"

namespace ranklog::storage {

// A batch in the store: of a stream, of a run, or of its replays.
struct StoredBatch {
  int64_t id = 0;
  int64_t owner = 0;  // the stream or the run
  model::Batch batch;
};

// The rows that wait for the trackers of one kind, over all runs.
struct Queue {
  std::string kind;
  uint64_t rows = 0;
  uint64_t bytes = 0;     // their encoded size; an estimate for a long queue
  int64_t oldest_us = 0;  // Unix time at which its oldest row was logged; 0: unknown
};

// The numbers of the lines that are kept of a rank: [from, end).
struct ConsoleExtent {
  uint64_t from = 0;
  uint64_t end = 0;
};

// Reads. Each call sees what was committed when the call began. Any call may detect damage and
// return kDataLoss.
class StoreReader {
 public:
  //   kNotFound            there is no store
  //   kFailedPrecondition  a newer version, an older version or another program wrote it; or its
  //                        directory cannot be written and its write-ahead log may have rows
  //   kDataLoss            it is damaged
  //   kPermissionDenied    it may not be read
  static absl::StatusOr<std::unique_ptr<StoreReader>> Open(const std::string& state_dir,
                                                           const char* vfs = nullptr);
  // The same, for a program that opens the store again and again: it leaves no file behind if no daemon
  // has it open. If a daemon opens it meanwhile, calls return kUnavailable: open it anew.
  static absl::StatusOr<std::unique_ptr<StoreReader>> OpenWithoutTrace(
      const std::string& state_dir);

  // From now on, also reads batches after missing ones. For callers that check for gaps themselves.
  void PassOverMissing() { pass_over_missing_ = true; }

  absl::StatusOr<std::vector<model::Run>> Runs();                   // newest first
  absl::StatusOr<model::Run> GetRun(int64_t run);                   // kNotFound
  absl::StatusOr<std::vector<model::Stream>> Streams(int64_t run);  // by rank, thread, start
  // Reads what has changed in `streams`, which Streams(run) returned. Reads them anew if a stream was
  // added or removed, or its state or its time of end has changed. Much cheaper for a run of thousands of streams, of which only
  // the rows change.
  absl::Status UpdateStreams(int64_t run, std::vector<model::Stream>* streams);
  absl::StatusOr<model::Stream> StreamOfRing(const model::StreamKey& key);  // kNotFound
  // The streams of running runs, which a daemon continues when it starts.
  absl::StatusOr<std::vector<model::Stream>> LiveStreams();

  // The runs here that are parts of a run of another node, and that run or ended after `ended_us`,
  // if that node's daemon does not have all of their streams yet.
  absl::StatusOr<std::vector<int64_t>> RunsToJoin(int64_t ended_us);

  // The next four calls return kNotFound if the stream or the run does not exist. It may be removed
  // between two calls. Keys by shape id. Ids count from 1, so element 0 is empty. So is the element
  // of an undefined id.
  absl::StatusOr<std::vector<std::vector<std::string>>> Shapes(int64_t stream);
  absl::StatusOr<std::vector<std::vector<std::string>>> RunShapes(int64_t run);

  // The batches of a stream with rows after `seq`, in order, up to about `max_bytes` of memory, but
  // at least one. The first one may begin with rows up to `seq`. Also kDataLoss if a batch is
  // missing.
  absl::StatusOr<std::vector<StoredBatch>> StreamBatches(int64_t stream, uint64_t after_seq,
                                                         size_t max_bytes);
  // The batches of a run with rows from `index` on, in order. Limited in the same way; the first
  // one may begin with earlier rows.
  absl::StatusOr<std::vector<StoredBatch>> RunBatches(int64_t run, uint64_t from_index,
                                                      size_t max_bytes);

  // The same for the run's replays.
  absl::StatusOr<std::vector<StoredBatch>> ReplayBatches(int64_t run, uint64_t from_index,
                                                         size_t max_bytes);
  absl::StatusOr<std::vector<model::Rewind>> Rewinds(int64_t run);  // oldest first

  // The items of a run's streams with ids above `after_id`, oldest first.
  absl::StatusOr<std::vector<model::StoredItem>> Items(int64_t run, int64_t after_id);
  // Only the artifacts and files among them.
  absl::StatusOr<std::vector<model::StoredItem>> Uploads(int64_t run, int64_t after_id);
  // The names of the staged files in all artifacts and files of runs; true: a delivery still needs it,
  // or the run stays on this node.
  absl::StatusOr<std::map<std::string, bool>> StagedFiles();

  // The lines that programs of a run's rank printed, from number `from` on, at most `most`.
  absl::StatusOr<std::vector<model::StoredConsoleLine>> ConsoleLines(int64_t run, uint32_t rank,
                                                                     uint64_t from, size_t most);
  // Those that were added or changed after the change `after_id`, ids ascending.
  absl::StatusOr<std::vector<model::StoredConsoleLine>> ConsoleChanges(int64_t run, uint32_t rank,
                                                                       int64_t after_id,
                                                                       size_t most);
  // The ranks of the run of which lines are kept.
  absl::StatusOr<std::map<uint32_t, ConsoleExtent>> ConsoleRanks(int64_t run);

  // The run's samples from number `from` on, at most `most`.
  absl::StatusOr<std::vector<model::Sample>> Samples(int64_t run, uint64_t from, size_t most);
  absl::StatusOr<model::Json> Hardware(int64_t run);  // an empty object: not known

  absl::StatusOr<std::vector<model::Delivery>> Deliveries(int64_t run);
  // Not complete, oldest run first.
  absl::StatusOr<std::vector<model::Delivery>> PendingDeliveries();
  absl::StatusOr<std::vector<model::DeadLetter>> DeadLetters(int64_t run);  // oldest first
  // By kind; only kinds with waiting rows. Reads about 256 KiB of rows of each waiting run.
  absl::StatusOr<std::vector<Queue>> Queues();
  absl::StatusOr<model::Losses> LossesOfAll();  // over all streams
  // Checks for damage like Store::Open().
  absl::Status Check();
  absl::StatusOr<int64_t> FileBytes();  // of the database and its write-ahead log
  absl::StatusOr<int64_t> UsedBytes();  // of the database, without its free pages

  // See RemovableRuns() in retention.h.
  absl::StatusOr<std::vector<RemovableRun>> Removable(int64_t ended_by_us);
  // The size of the run's rows and of its streams' rows. Reads their whole index, so show a
  // progress bar if you call it for many runs.
  absl::StatusOr<uint64_t> BytesOfRun(int64_t run);
  // The last row that was removed with the run of this ring; kNotFound if none was.
  absl::StatusOr<uint64_t> RemovedThrough(const model::StreamKey& key);

 private:
  static absl::StatusOr<std::unique_ptr<StoreReader>> OpenIn(const std::string& state_dir,
                                                             Database::Mode mode, const char* vfs);
  explicit StoreReader(Database database) : database_(std::move(database)) {}
  absl::StatusOr<std::vector<model::Stream>> StreamsOf(Query query);
  // The owner of the blobs that are read next, from its record in the store.
  struct Owner {
    std::string seal;
    uint64_t next = 0;  // the position after its last row
    bool gaps = false;  // positions may be missing
  };
  absl::StatusOr<Owner> OwnerOf(const char* sql, int64_t id);
  absl::StatusOr<std::vector<std::vector<std::string>>> ShapesOf(Query query,
                                                                 absl::string_view owner);
  // `position` is that of the first wanted row.
  absl::StatusOr<std::vector<StoredBatch>> BatchesOf(Query query, const Owner& owner,
                                                     uint64_t position, size_t max_bytes,
                                                     CompleteBlock complete);
  // The same for the batches of a run, or of its replays.
  absl::StatusOr<std::vector<StoredBatch>> BatchesOfRun(Query query, const Owner& owner,
                                                        int64_t run, uint64_t position,
                                                        size_t max_bytes);
  absl::StatusOr<std::vector<model::StoredItem>> ItemsOf(Query query);
  absl::StatusOr<std::vector<model::Delivery>> DeliveriesOf(Query query);

  Database database_;
  bool pass_over_missing_ = false;
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_STORE_READER_H_
