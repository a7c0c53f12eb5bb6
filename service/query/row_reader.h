// Reads rows from the store one by one, in bounded memory.

#ifndef SERVICE_QUERY_ROW_READER_H_
#define SERVICE_QUERY_ROW_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/model/batch.h"
#include "service/storage/store_reader.h"

namespace ranklog::query {

// One row. Valid only during the visit.
struct Row {
  int64_t owner;      // id of the run or the stream in the store
  uint64_t position;  // index in a run, or sequence number in a stream
  const model::Block& block;
  size_t index;                          // of the row in the block
  const std::vector<std::string>& keys;  // names of the values, in their order

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

// Makes sure that `shapes` has all shapes of the batch. Reads the shapes again for an unknown
// shape, because it may have been defined later.
//   kDataLoss  it is still unknown, or the number of values differs from its number of keys
absl::Status LearnShapes(const model::Batch& batch, ShapeSource source, Shapes* shapes);

// Rows [begin, end) of a run, or of its replays.
struct RowRange {
  bool replays = false;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t rows() const { return end - begin; }
};

// The visible rows of a run. If the run was rewound (model::Rewind), only the valid part of each
// attempt, in the order of steps. Otherwise all rows. `run` must be as read from the store.
absl::StatusOr<std::vector<RowRange>> VisibleRows(storage::StoreReader& reader,
                                                  const model::Run& run);
// The last `rows` rows of `ranges`.
std::vector<RowRange> LastOf(std::vector<RowRange> ranges, uint64_t rows);
// The rows that were made between two reads of a run, in the order in which they were made.
absl::StatusOr<std::vector<RowRange>> MadeSince(storage::StoreReader& reader,
                                                const model::Run& before, const model::Run& run);

using BatchVisitor = absl::FunctionRef<absl::Status(const model::Batch&, const Shapes&)>;

// Visits a range of a run's rows in batches, in order. Holds a few megabytes of them in memory.
// Stops at the first error, its own or the visitor's.
//   kDataLoss  a row has a shape that the store does not know
absl::Status VisitRunBatches(storage::StoreReader& reader, int64_t run, const RowRange& range,
                             BatchVisitor visitor);

using RowVisitor = absl::FunctionRef<absl::Status(const Row&)>;

// The same, row by row.
absl::Status VisitRunRows(storage::StoreReader& reader, int64_t run, const RowRange& range,
                          RowVisitor visitor);

// Visits the rows of a stream up to and including `last_seq`.
absl::Status VisitStreamRows(storage::StoreReader& reader, int64_t stream, uint64_t last_seq,
                             RowVisitor visitor);

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_ROW_READER_H_
