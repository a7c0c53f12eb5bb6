// Collects rows in one Batch: a dense block for each shape.

#ifndef CLIENT_STREAM_BATCH_ENCODER_H_
#define CLIENT_STREAM_BATCH_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/ring/ring_reader.h"
#include "client/ring/ticks.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

class BatchEncoder {
 public:
  // Larger messages are not cheaper per row.
  static constexpr size_t kMaxBytes = 1 << 20;

  // Starts a new batch in `batch`, which keeps its memory.
  void Start(v1::Batch* batch);

  // Adds a row. False: the batch is full; send it, then add the row again. A row that is larger
  // than a batch gets a batch of its own.
  bool Add(const RowView& row, const TickReader& ticks);

  bool empty() const { return rows_ == 0; }

 private:
  struct Open {  // base of the next row's deltas in a block
    bool has_text;
    int64_t step;
    int64_t time_us;
  };

  v1::Block* FindBlock(const RowView& row, bool has_text, size_t* index);

  v1::Batch* batch_ = nullptr;
  std::vector<Open> open_;  // by block
  size_t last_block_ = 0;
  size_t rows_ = 0;
  size_t bytes_ = 0;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_BATCH_ENCODER_H_
