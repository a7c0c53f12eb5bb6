// Collects a run's rows into batches: a block for each kind of rows, and batches of a suitable size
// for storage and for the trackers.

#ifndef SERVICE_AGGREGATE_JOIN_BATCH_BUILDER_H_
#define SERVICE_AGGREGATE_JOIN_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "service/aggregate/join/stream_rows.h"
#include "service/model/batch.h"

namespace ranklog::aggregate {

// Not thread-safe.
class BatchBuilder {
 public:
  static constexpr size_t kBatchBytes = 1 << 20;  // a batch ends when it exceeds this
  // A reader of a batch visits every block for every row.
  static constexpr size_t kBatchBlocks = 256;

  explicit BatchBuilder(uint64_t next_index) : next_index_(next_index) {}

  uint64_t next_index() const { return next_index_; }

  // The common properties of a block's rows.
  struct Kind {
    uint32_t shape;
    bool counted;                        // as in model::Block
    const StreamRows* source = nullptr;  // the stream whose rows these repeat; null: none
    uint32_t added = 0;                  // as in model::Source

    friend bool operator==(const Kind&, const Kind&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Kind& kind) {
      return H::combine(std::move(hash), kind.shape, kind.counted, kind.source, kind.added);
    }
  };
  // Adds the next row of the run, which repeats the row `seq` of kind.source. Returns space for its
  // `width` numbers, which the caller must fill before the next call.
  double* AddRow(Kind kind, uint64_t seq, size_t width, int64_t step, int64_t time_us);
  // Adds a text to the last row; Text::row is set here.
  void AddText(model::Text text);

  // Returns the collected batches. The next row continues after them.
  std::vector<model::Batch> Take();

 private:
  model::Block& BlockOf(Kind kind);

  uint64_t next_index_;
  std::vector<model::Batch> batches_;         // rows are added to the last one
  absl::flat_hash_map<Kind, size_t> blocks_;  // of the last batch
  size_t bytes_ = 0;                          // of the last batch
  Kind last_kind_ = {};                       // of the last row
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_BATCH_BUILDER_H_
