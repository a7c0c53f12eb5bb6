// Rows in the daemon's memory and store: dense blocks, grouped by shape.

#ifndef SERVICE_MODEL_BATCH_H_
#define SERVICE_MODEL_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ranklog::model {

// A value of a row that is not a double: a string, or JSON text for bools, large integers, null,
// lists and objects. JSON text is as ParseJsonText() takes it. It is delivered and exported
// unchanged.
struct Text {
  uint32_t row = 0;  // index into the block's rows
  std::string key;
  std::string value;
  bool json = false;  // `value` is JSON text

  friend bool operator==(const Text&, const Text&) = default;
};

// The rows of a stream that a run's rows repeat. Steps, times and texts are the same, and the values
// begin with those of the stream's row.
struct Source {
  uint32_t rank = 0;  // `rank` and `incarnation` are those of the stream
  uint64_t incarnation = 0;
  uint32_t added = 0;          // the number of values that follow those of the stream's row
  std::vector<uint64_t> seqs;  // one per row, ascending; empty: the rows do not repeat a stream's

  friend bool operator==(const Source&, const Source&) = default;
};

// Rows of one shape. The vectors `offsets`, `steps` and `times_us` have one element per row.
// `values` has rows() * width elements, row by row; width is the number of the shape's keys.
struct Block {
  uint32_t shape = 0;    // 0: no numbers, only texts
  bool commits = false;  // each row closes its step (it was logged without one)
  // Set together with `commits`: the steps count the rows of the process from 0. In a run's batch,
  // they count the rows of its process, or continue from the run's last row.
  bool counted = false;
  std::vector<uint32_t> offsets;  // the row's position minus Batch::first, ascending
  std::vector<int64_t> steps;     // ascending, repeats allowed
  std::vector<int64_t> times_us;  // Unix time
  std::vector<double> values;
  std::vector<Text> texts;  // sorted by row
  Source source;  // only of a run's new rows, so that the store keeps the stream's rows once

  size_t rows() const { return offsets.size(); }
  size_t width() const { return rows() == 0 ? 0 : values.size() / rows(); }

  friend bool operator==(const Block&, const Block&) = default;
};

// The rows at the positions first to last, each in exactly one block. A position is the row's
// sequence number (from 1) in a rank's stream, or its index (from 0) in a run.
struct Batch {
  uint64_t first = 0;
  uint64_t last = 0;
  std::vector<Block> blocks;

  uint64_t rows() const { return last - first + 1; }

  friend bool operator==(const Batch&, const Batch&) = default;
};

// OK if every position from first to last occurs once, the vectors' lengths agree, and texts refer
// to existing rows and are JSON if they say so. A batch from outside must pass this check before it
// is used.
//   kInvalidArgument   the message names the mismatch
absl::Status Validate(const Batch& batch);

// The rows first to last of a valid batch that contains them.
Batch Part(const Batch& batch, uint64_t first, uint64_t last);
// The rows of a valid batch after `position`, which must be less than its last position.
Batch DropThrough(const Batch& batch, uint64_t position);

// The texts of a row of a valid block.
absl::Span<const Text> TextsOf(const Block& block, size_t row);
// The approximate memory of the rows.
size_t BytesOf(const Batch& batch);

// Visits the rows of a batch in the order of their positions: fn(const Block&, size_t row, uint64_t
// position).
template <typename Fn>
void ForEachRow(const Batch& batch, Fn&& fn) {
  std::vector<size_t> next(batch.blocks.size(), 0);
  for (uint64_t position = batch.first; position <= batch.last; ++position) {
    for (size_t b = 0; b < batch.blocks.size(); ++b) {
      const Block& block = batch.blocks[b];
      if (next[b] < block.rows() && batch.first + block.offsets[next[b]] == position) {
        fn(block, next[b]++, position);
        break;
      }
    }
  }
}

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_BATCH_H_
