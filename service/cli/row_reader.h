// Rows out of the store, one by one, however many there are.

#ifndef SERVICE_CLI_ROW_READER_H_
#define SERVICE_CLI_ROW_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/model/batch.h"
#include "service/storage/store.h"

namespace ranklog::cli {

// One row, as long as the visit lasts.
struct Row {
  int64_t owner;      // the store's id of the run or the stream
  uint64_t position;  // the index in a run, the sequence number in a stream
  const model::Block& block;
  size_t index;                          // in the block
  const std::vector<std::string>& keys;  // of the values, in their order

  int64_t step() const { return block.steps[index]; }
  int64_t time_us() const { return block.times_us[index]; }
  absl::Span<const double> values() const {
    return absl::MakeConstSpan(block.values).subspan(index * keys.size(), keys.size());
  }
  absl::Span<const model::Text> texts() const;
};

using Shapes = std::vector<std::vector<std::string>>;  // keys by shape id

using Batches = std::vector<storage::StoredBatch>;

using ShapeSource = absl::FunctionRef<absl::StatusOr<Shapes>()>;

// Sees to it that `shapes` has those of the batch: a shape may be defined after the shapes were
// read, so an unknown one is looked up again.
//   kDataLoss  it is still unknown, or the rows have another number of values than it has keys
absl::Status LearnShapes(const model::Batch& batch, ShapeSource source, Shapes* shapes);

// Rows [begin, end) of a run, or of its replays.
struct RowRange {
  bool replays = false;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t rows() const { return end - begin; }
};

// What a run shows: where it was rewound (model::Rewind), only what is left of each attempt, in the
// order of steps. Without that all of its rows. `run` as it was read.
absl::StatusOr<std::vector<RowRange>> VisibleRows(storage::StoreReader& reader,
                                                  const model::Run& run);
// The last `rows` of `ranges`.
std::vector<RowRange> LastOf(std::vector<RowRange> ranges, uint64_t rows);
// What was made of a run between two readings of it, in the order in which it was.
absl::StatusOr<std::vector<RowRange>> MadeSince(storage::StoreReader& reader,
                                                const model::Run& before, const model::Run& run);

using BatchVisitor = absl::FunctionRef<absl::Status(const model::Batch&, const Shapes&)>;

// Visits a range of a run's rows in batches, in order. A few megabytes of them are in memory at a
// time. Ends with the first error, its own or the visitor's.
//   kDataLoss   a row is of a shape that the store does not know
absl::Status VisitRunBatches(storage::StoreReader& reader, int64_t run, const RowRange& range,
                             BatchVisitor visitor);

using RowVisitor = absl::FunctionRef<absl::Status(const Row&)>;

// The same, row by row.
absl::Status VisitRunRows(storage::StoreReader& reader, int64_t run, const RowRange& range,
                          RowVisitor visitor);

// Visits the rows of a stream up to and with `last_seq`.
absl::Status VisitStreamRows(storage::StoreReader& reader, int64_t stream, uint64_t last_seq,
                             RowVisitor visitor);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_ROW_READER_H_
