// Makes one Batch of rows as they come: a dense block for each shape.

#ifndef CLIENT_BATCH_BUILDER_H_
#define CLIENT_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/ring_reader.h"
#include "client/ticks.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

class BatchBuilder {
 public:
  static constexpr size_t kMaxBytes = 1
                                      << 20;  // beyond this, larger messages are no cheaper per row

  // Starts anew in `batch`, which keeps its memory.
  void Start(v1::Batch* batch);

  // False: it is full, send it first. A row that is larger than a batch gets one of its own.
  bool Add(const RowView& row, const TickReader& ticks);

  bool empty() const { return rows_ == 0; }

 private:
  struct Open {  // what the next row of a block is relative to
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

#endif  // CLIENT_BATCH_BUILDER_H_
