// Completes the rows of a run that repeat rows of its streams, and that the store keeps once.

#ifndef SERVICE_STORAGE_ROWS_SOURCE_ROWS_H_
#define SERVICE_STORAGE_ROWS_SOURCE_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/model/batch.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

// For the batches of one run, in one read transaction. Keeps the last batch of a stream that it
// read, so completing blocks in order reads each batch once. Not thread-safe.
class SourceRows {
 public:
  // `database` must outlive this object.
  SourceRows(Database* database, int64_t run) : database_(database), run_(run) {}

  // Fills in the steps, times, values and texts of a block that has only its source, its offsets
  // and the added values.
  //   kDataLoss  a row of the stream is missing or damaged
  //   kNotFound  the run was removed
  absl::Status Complete(model::Block& block);

 private:
  absl::Status FindStream(const model::Source& source);
  absl::Status ReadBatchOf(uint64_t seq);
  absl::Status Damaged(uint64_t seq, absl::string_view why) const;

  Database* const database_;
  const int64_t run_;
  // The stream of the last block.
  int64_t stream_ = 0;
  uint32_t rank_ = 0;
  uint64_t incarnation_ = 0;
  std::string seal_;
  // The last batch of the stream, and its rows by position.
  model::Batch batch_;
  std::vector<std::pair<const model::Block*, size_t>> rows_;
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_ROWS_SOURCE_ROWS_H_
